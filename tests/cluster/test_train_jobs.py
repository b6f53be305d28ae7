"""The annotations of a TrainJob's pods are stored with each of the two CRDs."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.awaiting import until
from tests.cluster import train_job_crd
from tests.cluster.conftest import NewNamespace, opted_in, with_operators
from tests.cluster.kubectl import Kubectl
from tests.cluster.namespace import SERVER_SIDE
from webhook.kube import names
from webhook.systems.trainer.rules import MANAGER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.kubectl import Object
    from tests.cluster.namespace import Namespace

pytestmark = with_operators

SAID: Final = {names.INTERRUPTIBLE: "false", names.MAX_RETRIES: "2"}
OURS: Final = {"manager": MANAGER, "trainingRuntimeSpec": {"template": {"metadata": {"annotations": SAID}}}}
OTHERS: Final = {
    "manager": "example.io/platform-team",
    "trainingRuntimeSpec": {"template": {"metadata": {"labels": {"team": "vision"}}}},
}


def train_job(**spec: Any) -> Object:
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "train", "annotations": dict(SAID)},
        "spec": {"runtimeRef": {"name": "torch-distributed"}, **deepcopy(spec)},
    }


@pytest.fixture
def older(kubectl: Kubectl) -> Iterator[None]:
    with train_job_crd.unchanged(kubectl):
        yield


@pytest.fixture
def newer(kubectl: Kubectl, namespace: NewNamespace) -> Iterator[None]:
    """Install the newer CRD; yield when the webhook uses it."""
    with train_job_crd.newer(kubectl):
        team = opted_in(namespace)
        until(lambda: "runtimePatches" in team.create(train_job(), "--dry-run=server")["spec"])
        yield


@pytest.mark.usefixtures("older")
def test_the_older_crd_stores_the_annotations_of_a_train_jobs_pods(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    until(lambda: "annotations" in team.create(train_job(), "--dry-run=server")["spec"])
    stored = team.create(train_job(podTemplateOverrides=[{"targetJobs": [{"name": "node"}]}]))
    assert stored["spec"]["annotations"] == SAID
    assert stored["spec"]["podTemplateOverrides"][0]["metadata"]["annotations"] == SAID


@pytest.mark.usefixtures("newer")
def test_the_newer_crd_stores_runtime_patches_and_an_unchanged_manifest_can_be_applied_again(
    namespace: NewNamespace,
) -> None:
    assert train_job_keeps(opted_in(namespace), train_job(), [OURS])
    assert train_job_keeps(opted_in(namespace), train_job(runtimePatches=[OTHERS]), [OTHERS, OURS])


def train_job_keeps(team: Namespace, manifest: Object, patches: list[Object]) -> bool:
    """Return True if these patches are stored, also after the manifest is applied again."""
    stored = team.apply(manifest)
    assert stored["spec"]["runtimePatches"] == patches
    assert "annotations" not in stored["spec"]
    # By kubectl alone: it makes its own of what was applied client-side when it first applies server-side.
    return all(
        Kubectl.apply(team, manifest, *flags)["spec"]["runtimePatches"] == patches
        for flags in ((), SERVER_SIDE, SERVER_SIDE)
    )
