"""A node with a real kubelet: containerd, runc and Debian's CNI plugins below it, one of each program for each node."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.cluster.nodes import POOL, SPOT
from tests.cluster.processes import HarnessError
from tests.cluster.real_nodes.images import PAUSE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.cluster.credentials import Credentials
    from tests.cluster.processes import Processes

RESERVED: Final = "retry-policy-test/reserved"
PLUGINS: Final = "/usr/lib/cni"
CONTAINERD: Final = """\
version = 3
root = "{folder}/containerd"
state = "/run/{name}"
[grpc]
  address = "{socket}"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "{pause}"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["{plugins}"]
    conf_dir = "{folder}/cni"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      SystemdCgroup = false
"""


@dataclass(frozen=True, slots=True)
class Node:
    """A node by its name; `number` gives it an address and a network of pods. `folder`: for all of its files.

    `reserved`: whether only pods that tolerate the taint RESERVED run on it. `has_logind`: whether its kubelet is told
    that the node is shut down.
    """

    name: str
    number: int
    folder: Path
    spot: bool
    reserved: bool
    has_logind: bool

    @property
    def address(self) -> str:
        return f"10.89.0.{10 + self.number}"

    @property
    def socket(self) -> str:
        return f"/run/{self.name}.sock"

    @property
    def containerd(self) -> str:
        """The name of its containerd in `Processes`."""
        return f"containerd-{self.name}"

    @property
    def kubelet(self) -> str:
        return f"kubelet-{self.name}"

    @property
    def logind(self) -> str:
        return f"logind-{self.name}"

    @property
    def programs(self) -> list[str]:
        return [self.kubelet, self.containerd, *([self.logind] if self.has_logind else [])]

    def start_containerd(self, programs: Mapping[str, Path], processes: Processes, images: list[Path]) -> None:
        """Start containerd, and import images when it answers."""
        root = self.folder / "containerd"
        root.mkdir(parents=True)
        # A file system of its own: overlayfs does not work on every one, and the kubelet measures it.
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2g", "tmpfs", root], check=True)
        network = self.folder / "cni"
        network.mkdir()
        (network / "10-pods.conflist").write_text(json.dumps(self.network()))
        configuration = self.folder / "containerd.toml"
        configuration.write_text(
            CONTAINERD.format(folder=self.folder, name=self.name, socket=self.socket, pause=PAUSE, plugins=PLUGINS)
        )
        processes.start(self.containerd, [programs["containerd"], f"--config={configuration}"], env=path_with(programs))
        client = [str(programs["ctr"]), f"--address={self.socket}", "--namespace=k8s.io"]
        processes.wait_until(
            lambda: not subprocess.run([*client, "version"], capture_output=True, check=False).returncode,
            "containerd to answer",
            log=self.containerd,
        )
        for image in images:
            done = subprocess.run([*client, "images", "import", image], capture_output=True, text=True, check=False)
            if done.returncode:
                raise HarnessError(f"{image} was not imported on {self.name}: {done.stderr}")

    def network(self) -> Any:
        """Return the configuration of the network of its pods: a bridge and a /24 of its own."""
        addresses = {"type": "host-local", "ranges": [[{"subnet": f"10.88.{self.number}.0/24"}]]}
        bridge = {
            "type": "bridge",
            "bridge": f"pods{self.number}",
            "isGateway": True,
            "hairpinMode": True,
            "ipam": {**addresses, "routes": [{"dst": "0.0.0.0/0"}], "dataDir": str(self.folder / "addresses")},
        }
        portmap = {"type": "portmap", "capabilities": {"portMappings": True}}
        return {"cniVersion": "1.0.0", "name": f"pods-{self.name}", "plugins": [bridge, portmap]}

    def start_logind(self, processes: Processes) -> str:
        """Start a system bus for the kubelet alone, with logind on it; return the address of the bus."""
        socket = Path(f"/run/{self.name}-bus.sock")
        bus, address, log = f"bus-{self.name}", f"unix:path={socket}", processes.logs / f"{self.logind}.log"
        processes.start(bus, ["dbus-daemon", "--session", "--nofork", "--nopidfile", f"--address={address}"])
        processes.wait_until(socket.exists, "the bus of a node", log=bus)
        processes.start(self.logind, ["/usr/bin/python3", str(Path(__file__).with_name("logind.py")), address])
        processes.wait_until(lambda: "answers" in log.read_text(), "logind to answer", log=self.logind)
        return address

    def start_kubelet(
        self, programs: Mapping[str, Path], processes: Processes, credentials: Credentials, server: str, group: str
    ) -> None:
        """Start the kubelet; `server`: the URL of the API server. `group`: the control group of its pods."""
        taints = [(SPOT, "true")] * self.spot + [(RESERVED, self.name)] * self.reserved
        shutdown, bus = {}, {}
        if self.has_logind:
            shutdown = {"shutdownGracePeriod": "30s", "shutdownGracePeriodCriticalPods": "5s"}
            bus = {"DBUS_SYSTEM_BUS_ADDRESS": self.start_logind(processes)}
        certificate, key = credentials.server(self.name, [self.address, self.name])
        configuration = self.folder / "kubelet.json"
        configuration.write_text(
            json.dumps(
                {
                    "apiVersion": "kubelet.config.k8s.io/v1beta1",
                    "kind": "KubeletConfiguration",
                    "address": self.address,
                    "authentication": {"x509": {"clientCAFile": str(credentials.authority_file)}},
                    "cgroupDriver": "cgroupfs",
                    "cgroupRoot": f"/{group}",
                    "containerRuntimeEndpoint": f"unix://{self.socket}",
                    "enforceNodeAllocatable": [],
                    "failCgroupV1": False,
                    "failSwapOn": False,
                    "healthzPort": 0,
                    "localStorageCapacityIsolation": False,
                    "oomScoreAdj": 0,
                    "podLogsDir": str(processes.logs / self.name),
                    "providerID": f"gce://test/europe-west1-b/{self.name}",
                    "registerWithTaints": [
                        {"key": taint, "value": value, "effect": "NoSchedule"} for taint, value in taints
                    ],
                    "resolvConf": "",
                    "tlsCertFile": str(certificate),
                    "tlsPrivateKeyFile": str(key),
                    **shutdown,
                }
            )
        )
        labels = {
            POOL: "spot" if self.spot else "on-demand",
            "topology.kubernetes.io/region": "europe-west1",
            "topology.kubernetes.io/zone": "europe-west1-b",
            **({SPOT: "true"} if self.spot else {}),
        }
        processes.start(
            self.kubelet,
            [
                programs["kubelet"],
                f"--config={configuration}",
                f"--kubeconfig={credentials.kubeconfig(f'system:node:{self.name}', server, groups=['system:nodes'])}",
                f"--hostname-override={self.name}",
                f"--node-ip={self.address}",
                f"--node-labels={','.join(f'{key}={value}' for key, value in labels.items())}",
                f"--root-dir={self.folder / 'kubelet'}",
            ],
            env=path_with(programs) | bus,
        )


def path_with(programs: Mapping[str, Path]) -> dict[str, str]:
    """Return the environment of a program that looks for containerd's shim, runc and mount."""
    return {"PATH": f"{programs['containerd'].parent}:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"}
