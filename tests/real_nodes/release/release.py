"""The release of the chart on real nodes: what Helm does with it, and what is then in the cluster."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import yaml

from tests.awaiting import until
from tests.cluster.helm import CHART, RELEASE, ROOT, Helm
from tests.cluster.installation import SYSTEM
from tests.faults.installed import ADMISSION, POLICY, SECRET, STATE_KEY
from webhook.kube.names import PROFILE
from webhook.policy.parse import KEY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.cluster.kubectl import Kubectl, Object, Result
    from tests.cluster.namespace import Namespace
    from tests.faults.direct import Direct
    from tests.faults.program import Program
    from tests.faults.watched import Watched

CONFIGURATIONS = tuple(
    f"{ADMISSION}/{kind}webhookconfigurations/retry-policy-webhook" for kind in ("mutating", "validating")
)
PODS = f"/api/v1/namespaces/{SYSTEM}/pods"
SHIPPED = yaml.safe_load((ROOT / "manifests" / "base" / "configmap.yaml").read_text())["data"][KEY]


@dataclass(slots=True)
class Release:
    """Helm, the namespace whose Jobs the load creates, and the load."""

    helm: Helm
    kubectl: Kubectl
    api: Direct
    team: Namespace
    load: Program
    table: list[Watched] = field(default_factory=list)

    def deploy(self, verb: str, *options: str, name: str = RELEASE) -> Result:
        """Install or upgrade with these values alone, and accept any exit code."""
        return self.helm.run(verb, name, str(CHART), *options)

    def install(self, *options: str) -> str:
        """Install the release and wait until it is ready; return what Helm prints."""
        return done(self.deploy("install", "--create-namespace", "--wait", *options))

    def upgrade(self, *options: str) -> str:
        """Upgrade the release to these values, and wait until it is ready; return what Helm prints."""
        return done(self.deploy("upgrade", "--reset-values", "--wait", *options))

    def rollback(self, revision: int) -> None:
        done(self.helm.run("rollback", RELEASE, str(revision), "--wait"))

    def uninstall(self) -> None:
        """Uninstall the release, and wait until its pods have ended."""
        done(self.helm.run("uninstall", RELEASE, "--wait"))
        until(lambda: not self.pods())

    def clear(self) -> None:
        """Uninstall the release, and delete what it leaves behind."""
        self.uninstall()
        self.api.delete(SECRET)
        self.api.delete(STATE_KEY)

    def opt_in(self) -> None:
        """Opt in the namespace, and wait until its Jobs are mutated and denied."""
        self.api.merge(f"/api/v1/namespaces/{self.team.name}", {"metadata": {"labels": {PROFILE: "default"}}})
        until(lambda: self.load.ask("probe"))

    def pods(self) -> list[Object]:
        """Return the pods of the release, those that are terminating included."""
        return list(self.api.get(PODS)["items"])

    def bundles(self) -> dict[str, str]:
        """Return the caBundle of each webhook, by the name of its configuration's kind and its own."""
        found = [self.api.get(path) for path in CONFIGURATIONS]
        return {
            f"{root['kind']}/{webhook['name']}": webhook["clientConfig"].get("caBundle", "")
            for root in found
            for webhook in root["webhooks"]
        }

    def policy(self) -> str:
        """Return the stored text of the policy."""
        return str(self.api.get(POLICY)["data"][KEY])

    def versions(self, *paths: str) -> dict[str, str]:
        """Return the present version of each object, from which `events_since` goes on."""
        return {path: self.api.get(path)["metadata"]["resourceVersion"] for path in paths}

    def events_since(self, path: str, version: str) -> list[tuple[str, Object]]:
        """Return every change of an object since a version of it: the event's type, and the new or deleted object."""
        folder, _, name = path.lstrip("/").rpartition("/")
        query = {"fieldSelector": f"metadata.name={name}", "resourceVersion": version, "timeoutSeconds": "2"}
        return list(self.team.api.watch(folder, **query))

    def bundles_since(self, versions: Mapping[str, str]) -> Iterator[set[str]]:
        """Yield the caBundles in every state that the configurations have had since these versions of them."""
        for path, version in versions.items():
            for _, root in self.events_since(path, version):
                yield {one["clientConfig"].get("caBundle", "") for one in root["webhooks"]}


def done(result: Result) -> str:
    """Return what a call of Helm has printed; fail with its error if it has failed."""
    assert result.returncode == 0, result.stderr
    return result.stdout
