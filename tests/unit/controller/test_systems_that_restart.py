"""What the leader does where pods depend on each other, and where nothing but the ledger bounds retries."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from tests.unit.controller import test_elsewhere as elsewhere
from tests.unit.controller.leader import FakeApi, beside, leading, new_ledger
from tests.unit.controller.test_elsewhere import EVICTED, account_in, owner_of, see_root
from tests.virtual_time import run
from tests.volcano import on, volcano_job
from webhook.controller.ledger import Ledger
from webhook.kube import names
from webhook.kube.bulkhead import repeat
from webhook.objects.problem import Json
from webhook.pods.pods import Pod
from webhook.policy.model import FailurePolicy, Profile, Retries
from webhook.systems.kind_spec import KindSpec
from webhook.systems.kubeflow.spec import TRAINING
from webhook.systems.volcano import spec as volcano
from webhook.tracking.workload_state import INTERVAL

PYTORCH = TRAINING["PyTorchJob"]
PATH = "/apis/kubeflow.org/v1/namespaces/ml/pytorchjobs/train"


def training_job() -> Json:
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"namespace": "ml", "name": "train", "uid": "job-uid", "resourceVersion": "7", "annotations": {}},
        "spec": {"runPolicy": {}, "pytorchReplicaSpecs": {"Worker": {"restartPolicy": "ExitCode"}}},
        "status": {"conditions": []},
    }


def stored_volcano_job() -> Json:
    root = volcano_job(on("PodFailed", action="RestartTask"))
    root["metadata"] |= {"namespace": "ml", "uid": "job-uid", "resourceVersion": "7", "annotations": {}}
    return {**root, "status": {"state": {"phase": "Running"}}}


def worker(number: int, code: int = 0, *, replica: int = 0, disrupted: bool = False, retries: int = 2) -> Pod:
    labels = {"training.kubeflow.org/replica-type": "worker", "training.kubeflow.org/replica-index": str(replica)}
    owner = owner_of("kubeflow.org/v1", "PyTorchJob", "train", "job-uid")
    return pod_of(number, code, labels, owner, disrupted=disrupted, retries=retries)


def pod_of(number: int, code: int, labels: Json, owner: Json, *, disrupted: bool = False, retries: int = 2) -> Pod:
    status = {"conditions": [EVICTED]} if disrupted else {}
    annotations = {names.MAX_RETRIES: str(retries)}
    return elsewhere.pod_of(number, code, status, labels=labels, ownerReferences=[owner], annotations=annotations)


def written(
    *seen: Pod, root: Json | None = None, kind: KindSpec = PYTORCH, path: str = PATH, profile: Profile | None = None
) -> Iterator[tuple[str, Any]]:
    """Let the watch deliver pods; yield path and content of each write, for the account the costs in it."""
    api = FakeApi()
    created = api.created
    root = root or training_job()

    async def work() -> None:
        api.objects[path] = root
        ledger = new_ledger(api, profile)
        ledger.trackers.watching_since = -1000.0
        async with leading(ledger), beside(repeat("settle", INTERVAL, ledger.settle)):
            see_root(ledger, kind, root)
            for pod in seen:
                ledger.trackers.see_pod(pod)
                await delivered(ledger, api, root, kind)
                if pod.has_failed:  # its controller deletes it, to create it again under the same name
                    ledger.trackers.see_pod_gone(pod)
            for _ in range(40):
                await delivered(ledger, api, root, kind)

    run(work())
    ends = [(one.path, one.operations[-1]["value"]) for one in api.writes if one.path.endswith("train/status")]
    accounts = api.account_writes()
    costs = [("account", account_in(api).cost)] if accounts else []
    yield from [*ends, *created, *costs]


async def delivered(ledger: Ledger, api: FakeApi, root: Json, kind: KindSpec) -> None:
    """Give the leader time, and let the watch deliver the accounts that it has written."""
    for _ in range(4):
        await asyncio.sleep(0.5)
    for write in api.account_writes()[-1:]:
        see_root(ledger, kind, root, write.text)


def failures(found: Iterator[tuple[str, Any]]) -> list[str]:
    return [status["conditions"][-1]["message"] for path, status in found if path.endswith("/status")]


def test_a_retry_beyond_the_limit_fails_a_job_that_nobody_else_bounds() -> None:
    assert failures(written(worker(1, 143, retries=1))) == []
    assert failures(written(worker(1, 143, retries=1), worker(2, 143, retries=1))) == [
        "pod ml/train-2: retry 2 exceeds the limit of 1"
    ]


def test_the_retries_of_another_replica_are_others() -> None:
    assert failures(written(worker(1, 143, retries=1), worker(2, 143, replica=1, retries=1))) == []


def test_a_replica_that_gets_further_gets_its_retries_back_while_it_runs() -> None:
    profile = Profile(retries=Retries(renew_on_progress=True))
    first, again = worker(1, 143, retries=1), worker(2, 143, retries=1)
    runs = replace(worker(2, retries=1), progress=0.60)
    assert failures(written(replace(first, progress=0.30), runs, again, profile=profile)) == []
    assert failures(written(replace(first, progress=0.58), runs, again, profile=profile)) != []


def test_a_profile_that_injects_nothing_bounds_nothing() -> None:
    profile = Profile(failure_policy=FailurePolicy(inject="Never"))
    assert failures(written(worker(1, 143, retries=0), profile=profile)) == []


def test_a_job_that_its_author_leaves_alone_from_now_on_is_bounded_by_the_limit_of_its_profile() -> None:
    root = training_job()
    root["metadata"]["annotations"][names.SKIP] = "true"
    profile = Profile(allow_skip=True, retries=Retries(limit=2, default=2))
    workers = [worker(number, 143, retries=0) for number in (1, 2, 3)]
    assert failures(written(*workers[:2], root=root, profile=profile)) == []
    assert failures(written(*workers, root=root, profile=profile)) == ["pod ml/train-3: retry 3 exceeds the limit of 2"]


BUG = ["Container main for pod ml/train-1 failed with exit code 139"]


@pytest.mark.parametrize(
    ("coupled", "beside_it", "expected"),
    [
        ("Settle", worker(2, replica=1), BUG),
        ("Settle", worker(2, 137, replica=1, disrupted=True), []),
        ("Settle", None, BUG),
        ("Retry", worker(2, replica=1), []),
        ("Retry", None, BUG),
        ("FailJob", worker(2, 137, replica=1, disrupted=True), BUG),
    ],
)
def test_a_crash_beside_a_disruption_is_judged_as_in_a_job(
    coupled: Any, beside_it: Pod | None, expected: list[str]
) -> None:
    profile = Profile(failure_policy=FailurePolicy(coupled=coupled))
    seen = [worker(1, 139)] if beside_it is None else [beside_it, worker(1, 139)]
    assert failures(written(*seen, profile=profile)) == expected


VOLCANO = "/apis/batch.volcano.sh/v1alpha1/namespaces/ml/jobs/train"


def of_volcano(code: int, *, disrupted: bool = False) -> Pod:
    labels = {"volcano.sh/task-spec": "main", "volcano.sh/task-index": "0"}
    owner = owner_of(volcano.JOB.api_version, "Job", "train", "job-uid")
    return pod_of(1, code, labels, owner, disrupted=disrupted)


def test_a_system_that_is_told_by_an_object_gets_that_object() -> None:
    found = written(of_volcano(1), root=stored_volcano_job(), kind=volcano.JOB, path=VOLCANO)
    (command,) = [made for path, made in found if path == "/apis/bus.volcano.sh/v1alpha1/namespaces/ml/commands"]
    assert (command["action"], command["target"]["uid"]) == ("TerminateJob", "job-uid")


def test_what_an_end_cost_is_told_by_the_spec_where_a_system_needs_it() -> None:
    found = dict(written(of_volcano(143, disrupted=True), root=stored_volcano_job(), kind=volcano.JOB, path=VOLCANO))
    assert found == {"account": {"retry": 1}}
