"""The labels and annotations of pods by which failures are counted: manifests/base/protected-keys.yaml."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

from tests.awaiting import until
from tests.cluster.conftest import opted_in
from tests.cluster.installation import BASE, CONTROLLER_ACCOUNT, as_service_account
from tests.cluster.manifests import job
from tests.cluster.objects import ended, is_running
from tests.documents import documents_of
from webhook.kube import names
from webhook.kube.client import Api as ApiOfServer
from webhook.pods.pods import TRACKING
from webhook.rules.pods.decision import POD_KEYS
from webhook.systems import core
from webhook.systems.job import spec as batch

if TYPE_CHECKING:
    from tests.cluster.conftest import NewNamespace
    from tests.cluster.kubectl import Kubectl, Object
    from tests.cluster.namespace import Namespace

NOT_PROTECTED = "example.test/note"
PER_INDEX = {"completionMode": "Indexed", "completions": 1, "backoffLimitPerIndex": 2}


def protected() -> list[tuple[str, str]]:
    """Return the keys that the manifest protects on pods, each after the name of its field in the metadata."""
    policies = documents_of((BASE / "protected-keys.yaml").read_text())
    spec = next(one["spec"] for one in policies if one["metadata"]["name"].endswith("-pod-keys"))
    found = {
        ("labels" if variable["name"] == "labels" else "annotations", key)
        for variable in spec["variables"]
        if variable["name"] != "leaves"
        for key in re.findall(r"'([a-z.-]+/[a-z-]+)'", variable["expression"])
    }
    return sorted(found)


def pod_of_job(team: Namespace) -> Object:
    team.create(job("train", **PER_INDEX))
    (pod,) = team.running("train", 1)
    return pod


def changed(team: Namespace, pod: Object, field: str, key: str, *, user: str = "", sub: str = "") -> str:
    """Try to change a label or an annotation of a pod; return why the API server refuses that, empty if it does not."""
    patch = {"metadata": {field: {key: "7"}}}
    return team.patched(f"pod/{pod['metadata']['name']}", patch, user=user, sub=sub)


def test_the_manifest_protects_what_placement_and_the_ledger_read_of_a_pod() -> None:
    annotations = {key for field, key in protected() if field == "annotations"}
    assert annotations >= {*POD_KEYS, batch.INDEX_FAILURES, batch.INDEX_IGNORED_FAILURES}


def test_a_user_who_may_change_pods_changes_none_of_them(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    pod = pod_of_job(team)
    team.permit("editor", {"apiGroups": [""], "resources": ["pods", "pods/status"], "verbs": ["get", "patch"]})
    team.bind("Role/editor", "User", "editor")
    until(lambda: not changed(team, pod, "annotations", NOT_PROTECTED, user="editor"))
    for field, key in protected():
        for sub in ("", "/status"):
            assert f"metadata.{field}[{key}]: " in changed(team, pod, field, key, user="editor", sub=sub)


def test_nor_does_the_admin_of_the_cluster(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    pod = pod_of_job(team)
    assert all(f"metadata.{field}[{key}]: " in changed(team, pod, field, key) for field, key in protected())


def test_the_ledger_marks_a_pod_as_counted(namespace: NewNamespace, kubectl: Kubectl, tmp_path: Path) -> None:
    team = opted_in(namespace)
    name = pod_of_job(team)["metadata"]["name"]
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(json.dumps(as_service_account(kubectl, CONTROLLER_ACCOUNT)))

    async def mark() -> None:
        path = "/metadata/annotations/" + names.COUNTED.replace("/", "~1")
        async with await ApiOfServer.connect(str(kubeconfig)) as api:
            await api.patch(core.POD.path(team.name, name), [{"op": "add", "path": path, "value": "now"}])

    asyncio.run(mark())
    assert team.get("pod", name)["metadata"]["annotations"][names.COUNTED] == "now"


def test_the_job_controller_and_the_kubelet_write_what_they_need(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    first = pod_of_job(team)
    team.ends(first, 143)

    def replaced(pods: list[Object]) -> list[Object]:
        counts = {batch.INDEX_FAILURES: "1", names.ATTEMPT: "1", names.DISRUPTIONS: "0"}
        return [pod for pod in pods if is_running(pod) and pod["metadata"]["annotations"].items() >= counts.items()]

    assert replaced(team.pods_of("train", replaced))
    name = first["metadata"]["name"]
    kept = team.wait_for("pods", name, is_released)  # once the Job controller has counted it
    assert kept["status"]["phase"] == "Failed"  # as the kubelet says
    assert kept["metadata"]["annotations"].items() >= {names.ATTEMPT: "0", batch.INDEX_FAILURES: "0"}.items()
    team.wait_for("jobs", "train", lambda found: ended(found, 1))


def test_a_job_adopts_an_orphan_and_releases_a_pod_without_labels_as_upstreams_conformance_test_wants(
    namespace: NewNamespace,
) -> None:
    team = opted_in(namespace)
    team.create(job("train", parallelism=2, completions=4, backoffLimit=4))
    pod, other = team.running("train", 2)
    name = pod["metadata"]["name"]

    def patch(**metadata: object) -> str:
        return team.patched(f"pod/{name}", {"metadata": metadata})

    assert patch(ownerReferences=None) == ""
    team.wait_for("pods", name, lambda found: bool(found["metadata"].get("ownerReferences")))  # adopted
    kept = {key: value for key, value in pod["metadata"]["labels"].items() if key != names.PROFILE}
    assert f"metadata.labels[{names.PROFILE}]: " in patch(labels={names.PROFILE: None})
    assert f"metadata.labels[{names.PROFILE}]: " in patch(
        labels={"batch.kubernetes.io/job-name": None, names.PROFILE: None}
    )
    assert patch(labels=dict.fromkeys([names.PROFILE, *kept])) == ""
    team.wait_for("pods", name, lambda found: not found["metadata"].get("ownerReferences"))  # released
    team.running("train", 1, but=other)  # the Job has another one in its place


def is_released(pod: Object) -> bool:
    """Return True if the Job controller has let go of a pod."""
    return TRACKING not in pod["metadata"].get("finalizers", [])
