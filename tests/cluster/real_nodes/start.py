"""Starts two pools of real nodes, spot and on-demand; some of the spot nodes are for the pods of one test alone."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from tests import debian
from tests.cluster import control_plane
from tests.cluster.control_plane import WHILE_WAITING
from tests.cluster.processes import HarnessError
from tests.cluster.real_nodes import control_groups, images, own_namespaces, product
from tests.cluster.real_nodes.node import Node

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import ExitStack

    from tests.cluster.processes import Processes
    from tests.cluster.real_nodes.own_namespaces import Passage

PACKAGES: Final[Mapping[str, str]] = {  # by program
    "runc": "runc",
    "iptables": "iptables",
    "conntrack": "conntrack",
    "ethtool": "ethtool",
    "socat": "socat",
    "ip": "iproute2",
    "/usr/lib/cni/bridge": "containernetworking-plugins",
    "/bin/busybox": "busybox-static",
    "/bin/bash-static": "bash-static",
}
FOR_TESTS: Final[Mapping[str, str]] = {  # for logind.py
    "dbus-daemon": "dbus-daemon",
    "/usr/lib/python3/dist-packages/dbus/__init__.py": "python3-dbus",
    "/usr/lib/python3/dist-packages/gi/__init__.py": "python3-gi",
}
SHARED: Final = {"spot-0": True, "on-demand-0": False}  # whether it is a spot node
SHUT_DOWN: Final = "shut-down"
RESERVED: Final = (
    "tainted",
    SHUT_DOWN,
    "restarted",
    "deleted",
    "lost",
    "broken",
    "full",
)  # spot nodes; what a test does to one disrupts no pod of another
FILE: Final = "nodes.json"
INOTIFY: Final = Path("/proc/sys/fs/inotify")
WATCHES: Final = {"max_user_instances": 1024, "max_user_watches": 524288}


def are_possible() -> bool:
    """Return True if this machine can have real nodes: control groups of version 1, namespaces, root on Debian."""
    probe = ("unshare", "--mount", "--net", "--pid", "--fork", "true")
    has_tools = debian.is_possible() and control_groups.are_version_1()
    return has_tools and not subprocess.run(probe, capture_output=True, check=False).returncode


def prepare(*, for_tests: bool) -> Path:
    """Install what nodes need; return the archive of this project's image. Raise HarnessError if they cannot run."""
    if os.geteuid() != 0:
        raise HarnessError("--real-nodes needs root, for namespaces, mounts and control groups")
    if not control_groups.are_version_1():
        remedy = "start Linux with systemd.unified_cgroup_hierarchy=0, or leave out --real-nodes"
        raise HarnessError(f"--real-nodes needs version 1 of control groups; {remedy}")
    try:
        debian.install({**PACKAGES, **(FOR_TESTS if for_tests else {})})
    except debian.InstallError as error:
        raise HarnessError(str(error)) from None
    return product.archive()


def nodes_in(folder: Path, *, for_tests: bool = True) -> list[Node]:
    """Return the nodes of a run with this folder; without those of single tests if it is not for tests."""
    known = {**SHARED, **(dict.fromkeys(RESERVED, True) if for_tests else {})}
    return [
        Node(name, number, folder / "nodes" / name, spot=spot, reserved=name in RESERVED, has_logind=name == SHUT_DOWN)
        for number, (name, spot) in enumerate(known.items(), 1)
    ]


def programs_in(folder: Path) -> list[str]:
    """Return the names of the programs of nodes, which tests may end."""
    return [name for node in nodes_in(folder) for name in node.programs]


def allow_watches() -> None:
    """Let each kubelet and each containerd watch files; Linux allows 128 watchers, of all programs of a user."""
    for name, least in WATCHES.items():
        file = INOTIFY / name
        if int(file.read_text()) < least:
            file.write_text(str(least))


def start(
    stack: ExitStack,
    programs: Mapping[str, Path],
    processes: Processes,
    folder: Path,
    *,
    image: Path,
    passage: Passage | None,
) -> Path:
    """Start a control plane with real nodes, and wait until they are Ready; return the cluster admin's kubeconfig.

    `image`: the archive of this project's image, for the on-demand node. What runs on the nodes ends with the stack.
    `passage`: for calls from outside, if this cluster is not for tests.
    """
    run, nodes = secrets.token_hex(4), nodes_in(folder, for_tests=passage is None)
    stack.callback(own_namespaces.unmount, folder)
    stack.callback(control_groups.remove, run)
    stack.callback(processes.stop)  # is called first
    archives = images.make(folder, programs.get("agnhost"))
    own_namespaces.set_up([node.address for node in nodes])
    allow_watches()
    plane, kubectl = control_plane.start_at(own_namespaces.API_ADDRESS, programs, processes, folder)
    if passage is not None:
        stack.callback(shutil.rmtree, passage.socket.parent)
        target = f"TCP:{own_namespaces.API_ADDRESS}:{urlsplit(plane.server).port}"
        processes.start("passage", ["socat", f"UNIX-LISTEN:{passage.socket},fork", target])
    for node in nodes:
        group = control_groups.create(run, node.name)
        node.start_containerd(programs, processes, archives if node.spot else [*archives, image])
        node.start_kubelet(programs, processes, plane.credentials, plane.server, group)
    processes.start(
        "kube-proxy",
        [
            programs["kube-proxy"],
            f"--kubeconfig={plane.credentials.kubeconfig('system:kube-proxy', plane.server)}",
            "--proxy-mode=iptables",
            "--conntrack-max-per-core=0",  # it may not change what holds for the whole machine
            f"--hostname-override={nodes[0].name}",  # all nodes share one network, and so its rules
        ],
    )
    ready = ("wait", "node", "--all", "--for=condition=Ready", WHILE_WAITING)
    processes.wait_until(
        lambda: len(kubectl.get("nodes")["items"]) == len(nodes) and not kubectl.run(*ready).returncode,
        "the nodes to be Ready",
        log=nodes[0].kubelet,
    )
    known = {node.name: {name: processes.running[name].pid for name in node.programs} for node in nodes}
    (folder / FILE).write_text(json.dumps(known))
    return kubectl.kubeconfig
