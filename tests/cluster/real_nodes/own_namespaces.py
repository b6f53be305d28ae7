"""Namespaces of Linux of this run's own, for network, mounts and processes: nothing outlives it, however it ends.

In its network the bridge API stands for the network of the nodes: the API server and the kubelets have addresses on it,
and nothing outside can be reached.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

from tests.cluster.control_plane import HOST, free_ports
from tests.cluster.processes import HarnessError, die_with_parent

API: Final = "api0"
API_ADDRESS: Final = "10.89.0.1"
SERVICES: Final = "10.0.0.0/24"  # the ClusterIPs
CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWNET = 0x00020000, 0x20000000, 0x40000000  # linux/sched.h
PASSED_ON: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Passage(NamedTuple):
    """Connections to this port of the machine's loopback arrive at a socket, where other namespaces may listen.

    `process`: the id, outside those namespaces, of the process that waits for them.
    """

    port: int
    socket: Path
    process: int


def passage() -> Passage:
    """Open a passage, until this process ends; before `enter`."""
    (port,) = free_ports(1)
    socket = Path(tempfile.mkdtemp(prefix="retry-policy-passage-")) / "socket"
    command = ("socat", f"TCP-LISTEN:{port},bind={HOST},reuseaddr,fork", f"UNIX-CONNECT:{socket}")
    subprocess.Popen(command, stderr=subprocess.DEVNULL, preexec_fn=die_with_parent)  # noqa: PLW1509 - there is one thread
    return Passage(port, socket, os.getpid())


def enter() -> None:
    """Go on in a child process in namespaces of its own; this process passes signals on, and ends as the child does."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET):
        raise HarnessError(f"no namespaces of its own: {os.strerror(ctypes.get_errno())}")
    sys.stdout.flush()
    child = os.fork()
    if child:
        for number in PASSED_ON:
            signal.signal(number, lambda received, _: os.kill(child, received))
        _, status = os.waitpid(child, 0)
        os._exit(abs(os.waitstatus_to_exitcode(status)))
    die_with_parent()
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        if " shared:" in line:
            succeed(f"mount --make-private {line.split()[4]}")  # what is mounted from now on stays here
    succeed("mount -t proc proc /proc")  # with the processes of this namespace


def set_up(addresses: list[str]) -> None:
    """Give the network its bridge with the address of the API server, and those of the nodes.

    /run is a tmpfs of its own: the sockets of containerd need short paths.
    """
    for command in (
        "ip link set lo up",
        f"ip link add {API} type bridge",
        f"ip link set {API} up",
        f"ip addr add {API_ADDRESS}/24 dev {API}",
        *(f"ip addr add {one}/32 dev {API}" for one in addresses),
        # Without a route the API server's calls to ClusterIPs end before kube-proxy's rules see them.
        f"ip route add {SERVICES} dev {API}",
        "mount -t tmpfs tmpfs /run",
    ):
        succeed(command)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


def succeed(command: str) -> None:
    done = subprocess.run(command.split(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise HarnessError(f"{command}: {done.stderr}")


def unmount(folder: Path) -> None:
    """Unmount everything below a folder, so that it can be deleted."""
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    below = [one for one in mounts if Path(one).is_relative_to(folder)]
    if below:
        subprocess.run(["umount", "--lazy", *reversed(below)], check=False)
