"""A whole control plane on which Helm installs the chart, with a stand-in kubelet and a load."""

from __future__ import annotations

import contextlib
import json
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.chart import last_version
from tests.chart.helm import CHART, RELEASE, ROOT, Helm
from tests.chart.kubelet import PLACEMENT, PODS, Kubelet
from tests.cluster import binaries, control_plane, nodes
from tests.cluster.installation import CONFIG_MAP, SYSTEM
from tests.cluster.kubectl import Kubectl, Result
from tests.cluster.namespace import Api, Namespace
from tests.cluster.processes import Processes
from tests.faults.direct import Address, Direct
from tests.faults.installed import ADMISSION, SECRET
from tests.faults.program import Program
from tests.faults.watched import under_load
from webhook import __version__
from webhook.kube.names import PROFILE
from webhook.policy.parse import KEY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractContextManager

    from tests.cluster.kubectl import Object
    from tests.faults.watched import Watched

NAMESPACE = "under-load"
LAST = "last"  # the tag of the image that stands for the last version
CONFIGURATIONS = tuple(
    f"{ADMISSION}/{kind}webhookconfigurations/retry-policy-webhook" for kind in ("mutating", "validating")
)
POLICY = f"/api/v1/namespaces/{SYSTEM}/configmaps/{CONFIG_MAP.partition('/')[2]}"


class Cluster:
    """The programs, and calls of Helm during which pods run."""

    def __init__(self, programs: Mapping[str, Path], processes: Processes, folder: Path) -> None:
        self.processes = processes
        self.folder = folder
        self.table: list[Watched] = []
        admin = control_plane.start(programs, processes, folder)
        self.kubectl = Kubectl(programs["kubectl"], admin)
        nodes.start(programs, processes, self.kubectl, foreign=False)
        self.api = Direct(Address.of(admin))
        self.balancer = Program.start(processes, "balancer")
        self.helm = Helm(programs["helm"], folder / "helm", admin, f"https://127.0.0.1:{self.balancer.ask('port')}")
        sources = {__version__: ROOT, LAST: last_version.unpack(folder / LAST)}
        self.kubelet = Kubelet(processes, self.api, self.balancer, admin, sources)
        self.api.create(
            "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        )
        self.load = Program.start(processes, "load", str(admin), NAMESPACE)
        self.team = Namespace(programs["kubectl"], admin, NAMESPACE, Api.connect(admin))

    def run(self, *arguments: str) -> Result:
        """Run Helm, and pods meanwhile; accept any exit code."""
        with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
            command = self.helm.command(*arguments)
            process = subprocess.Popen(command, cwd=ROOT, env=self.helm.environment, stdout=output, stderr=errors)
            try:
                self.kubelet.until(lambda: process.poll() is not None)
            finally:
                process.kill()
                code = process.wait()
            output.seek(0)
            errors.seek(0)
            return Result(code, output.read(), errors.read())

    def deploy(self, verb: str, *options: str, name: str = RELEASE, replicas: int = 1) -> Result:
        """Install or upgrade the release, with pods that the stand-in kubelet runs."""
        values = (f"--set-json=nodeSelector={json.dumps(PLACEMENT)}", f"--set=replicas={replicas}")
        return self.run(verb, name, str(CHART), *self.helm.called_at, *values, *options)

    def install(self, *options: str, replicas: int = 1) -> str:
        """Install the release and wait until it is ready; return what Helm prints."""
        return done(self.deploy("install", "--create-namespace", "--wait", *options, replicas=replicas))

    def upgrade(self, *options: str, replicas: int = 1) -> str:
        """Upgrade the release and wait until it is ready; return what Helm prints."""
        return done(self.deploy("upgrade", "--wait", *options, replicas=replicas))

    def opt_in(self) -> None:
        """Opt in the namespace under load, and wait until its Jobs are mutated and denied."""
        self.api.merge(f"/api/v1/namespaces/{NAMESPACE}", {"metadata": {"labels": {PROFILE: "default"}}})
        self.kubelet.until(lambda: self.load.ask("probe"))

    def opt_out(self) -> None:
        self.api.merge(f"/api/v1/namespaces/{NAMESPACE}", {"metadata": {"labels": {PROFILE: None}}})

    def under_load(self, title: str) -> AbstractContextManager[Watched]:
        return under_load(self.load, self.table, title)

    def entries(self) -> dict[str, Object]:
        """Return each webhook of both configurations, by the name of its configuration's kind and its own."""
        found = [self.api.get(path) for path in CONFIGURATIONS]
        return {f"{root['kind']}/{webhook['name']}": webhook for root in found for webhook in root["webhooks"]}

    def bundles(self) -> dict[str, str]:
        """Return the caBundle of each webhook; empty if there is none."""
        return {name: webhook["clientConfig"].get("caBundle", "") for name, webhook in self.entries().items()}

    def policy(self) -> str:
        """Return the stored text of the policy."""
        return str(self.api.get(POLICY)["data"][KEY])

    def images(self) -> list[str]:
        """Return the tags of the images of all pods, those that are terminating included."""
        pods = self.api.get(PODS)["items"]
        return sorted({pod["spec"]["containers"][0]["image"].rpartition(":")[2] for pod in pods})

    def clear(self) -> None:
        """Uninstall the release, and delete what it leaves behind."""
        self.opt_out()
        self.kubelet.kill_all()
        self.run("uninstall", RELEASE, "--ignore-not-found")
        self.kubelet.until(lambda: not self.api.get(PODS)["items"])
        self.api.delete(SECRET)

    def close(self) -> None:
        """Stop all programs."""
        self.team.api.close()
        self.kubelet.kill_all()
        self.load.close()
        self.balancer.close()


def done(result: Result) -> str:
    """Return what a call of Helm has printed; fail with its error if it has failed."""
    assert result.returncode == 0, result.stderr
    return result.stdout


@contextlib.contextmanager
def new_cluster() -> Iterator[Cluster]:
    """Start a cluster and stop it at the end."""
    with tempfile.TemporaryDirectory(prefix="retry-policy-chart-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        processes = Processes(folder / "logs")
        processes.logs.mkdir()
        try:
            cluster = Cluster(binaries.build([*binaries.own_cluster(), binaries.HELM]), processes, folder)
            yield cluster
            cluster.close()
        finally:
            processes.stop()
