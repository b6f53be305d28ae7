"""What the admission of a pod counts, and what counting costs with hostile annotations and many pods."""

from itertools import permutations
from typing import Any, TypeVar

import msgspec
import pytest
from msgspec.structs import replace

from tests.costs import assert_affordable, lines_of
from tests.metrics import sample
from tests.objects import DISRUPTION
from tests.opted_in import opted_in
from tests.unit.accounts.pods import disrupted, failed, job, job_set, running_pod
from tests.unit.controller.leader import see_account
from webhook.accounts.account import Account, id_of
from webhook.accounts.scopes import Scopes
from webhook.accounts.stored import encode
from webhook.accounts.tracker import TOGETHER, Key
from webhook.kube import names
from webhook.kube.informer import Informer
from webhook.objects.problem import Json
from webhook.objects.times import seconds
from webhook.pods.hardware import GONE
from webhook.pods.outcomes import outcome_of
from webhook.pods.pods import Pod
from webhook.policy.model import Disruptions, Duration, Profile
from webhook.policy.settings import resolve
from webhook.systems.job import spec as batch
from webhook.systems.job_set.spec import JOB_SET
from webhook.tracking.admission_counts import AdmissionCounts, PlacementCounts
from webhook.tracking.cluster import Cluster
from webhook.tracking.trackers import Trackers

NO_API: Any = None
STORED: dict[str, Any] = {"namespace": "ml", "uid": "job-uid", "resourceVersion": "1"}
RESTART = {**DISRUPTION, "action": "FailJob"}
Cached = TypeVar("Cached")
SET_LABELS = {"jobset.sigs.k8s.io/jobset-name": "set"}


def trackers(root: Json, above: Json | None, *pods: Pod) -> Trackers:
    """Return the trackers of a replica, with a Job, its JobSet and its pods in the caches."""
    cluster = opted_in(Cluster(NO_API))
    found = Trackers(cluster)
    found.pods.synced.set()
    found.accounts.synced.set()
    if above is not None:
        found.see_job_set(listed(cluster.job_sets, above))
    found.see_job(listed(cluster.jobs, root))
    for pod in pods:
        found.see_pod(pod)
    return found


def listed(cache: Informer[Cached], root: Json) -> Cached:
    """Add an object to a cache; return the part of it that is cached."""
    read = cache.read(msgspec.Raw(msgspec.json.encode(root)))
    assert read is not None
    key, cached = read
    cache.items[key] = cached
    return cached


def admit(found: Trackers, root: Json, labels: Json | None = None) -> int | None:
    """Return the count of disruptions; this needs no look-up, so it needs no event loop."""
    counts = counted(found, root, {"labels": labels or {}})
    return None if counts is None else counts.disruptions


def counted(found: Trackers, root: Json, metadata: Json) -> PlacementCounts | None:
    """Return the counts before a pod with these metadata."""
    coroutine = AdmissionCounts(found).of_job("ml", root, {"metadata": metadata})
    with pytest.raises(StopIteration) as done:
        coroutine.send(None)
    counts: PlacementCounts | None = done.value.value
    return counts


def test_admission_counts_many_uncounted_pods_at_little_cost() -> None:
    root = job({"parallelism": 1}, **STORED)
    found = trackers(root, None, *map(disrupted, range(TOGETHER)))
    assert admit(found, root) == TOGETHER
    assert_affordable(lambda: admit(found, root), lines=25_000)


def test_an_account_is_not_decoded_again_for_each_pod() -> None:
    account = Account(scopes=Scopes({str(2 * number): 2 for number in range(200)}))
    root = job({"parallelism": 1}, **STORED)
    found = trackers(root, None)
    see_account(found, batch.JOB, root, encode(account))
    assert admit(found, root) == 0
    assert lines_of(lambda: admit(found, root)) <= 340


def test_disruptions_that_count_no_more_are_not_counted_at_admission() -> None:
    root = job({"parallelism": 1}, **STORED)
    found = trackers(root, None)
    profile = Profile(disruptions=Disruptions(per=Duration(600)))
    found.settings_of = lambda _root: resolve("default", profile, {})
    see_account(found, batch.JOB, root, encode(Account(scopes=Scopes({"": 2}), window_start=ENDED_AT)))
    ended = seconds(ENDED_AT) or 0.0
    found.now = lambda: ended + 599
    assert admit(found, root) == 2
    found.now = lambda: ended + 600
    assert admit(found, root) == 0


def test_the_work_that_attempts_have_saved_includes_the_one_that_is_not_counted_yet() -> None:
    root = job(**STORED)
    found = trackers(root, None)
    said = {names.WORK: "3h", names.DEADLINE: "2x", names.CHECKPOINT: "30m"}
    found.settings_of = lambda _root: resolve("default", Profile(), said)
    see_account(found, batch.JOB, root, encode(Account(work=Scopes({"": 600}))))
    found.see_pod(failed(worked=3600))
    known = counted(found, root, {})
    assert known is not None
    assert known.saved_work == (2400, 1)


def test_admission_of_a_pod_does_not_wait_for_the_patterns_of_its_job_set() -> None:
    patterns = ["(a?){200}b"]
    above = job_set({"action": "RestartJobSetAndIgnoreMaxRestarts", "onJobFailureMessagePatterns": patterns})
    above["metadata"]["resourceVersion"] = "1"
    owner = {"apiVersion": f"{JOB_SET.group}/v1alpha2", "kind": "JobSet", "name": "set", "uid": "u", "controller": True}
    root = job({"parallelism": 1}, ownerReferences=[owner], **STORED)
    root["spec"]["podFailurePolicy"] = {"rules": [RESTART]}
    pods = [replace(disrupted(number), name="a" * 253, job_set="set") for number in range(50)]
    found = trackers(root, above, *pods)
    assert lines_of(lambda: admit(found, root, SET_LABELS)) <= 1_580


def test_with_a_backoff_limit_per_index_failures_are_counted_before_the_job_status_has_them() -> None:
    spec = {"completionMode": "Indexed", "completions": 4, "parallelism": 4}
    spec |= {"backoffLimitPerIndex": 10, "maxFailedIndexes": 0}
    root = job(spec, **STORED)
    pods = failed(1, index="0"), failed(2, index="1"), disrupted(3, index="1")
    found = trackers(root, None, *pods)
    see_account(found, batch.JOB, root, encode(Account(ended=1, cost={"retry": 1})))
    before_index_1 = {"annotations": {"batch.kubernetes.io/job-completion-index": "1"}}
    assert counted(found, root, before_index_1) == PlacementCounts(disruptions=1, failures=3, ended=pods[1:])


def test_without_a_backoff_limit_per_index_the_failures_of_the_account_count_that_the_job_status_may_lack() -> None:
    root = job({"parallelism": 1}, **STORED)
    found = trackers(root, None, failed(1), failed(2))
    see_account(found, batch.JOB, root, encode(Account(ended=1, cost={"retry": 1})))
    assert counted(found, root, {}) == PlacementCounts(disruptions=0, failures=1, ended=(failed(1), failed(2)))


def test_the_zone_of_an_ended_pod_is_that_of_its_node_also_if_the_node_becomes_known_later() -> None:
    root = job({"parallelism": 1}, **STORED)
    found = trackers(root, None, failed(1), failed(2, node="spot-2", zone="invented"))
    for name, zone in (("spot-1", "a"), ("spot-2", "b")):
        labels = {"topology.kubernetes.io/zone": zone}
        found.cluster.known_nodes.see({"metadata": {"name": name, "labels": labels}})
    counts = counted(found, root, {})
    assert counts is not None
    assert [found.located(pod).zone for pod in counts.ended] == ["a", "b"]


def test_a_pod_without_a_node_is_in_no_zone_whatever_its_labels_say() -> None:
    found = trackers(job({"parallelism": 1}, **STORED), None)
    assert found.located(running_pod(zone="invented", node="")).zone == ""


def test_a_zone_that_loses_its_spot_pods_is_reported_from_its_first_pod_on() -> None:
    root = job({"parallelism": 1}, **STORED)
    found = trackers(root, None)
    found.now = lambda: 1767225640.0  # ten seconds after the disruptions
    found.cluster.known_nodes.zones.add("tracked")
    for number in range(4):
        found.see_pod(running_pod(number, zone="tracked"))
    assert lost_in("tracked") == 0
    found.see_pod(disrupted(0, zone="tracked"))
    found.see_pod_gone(disrupted(1, zone="tracked"))
    assert lost_in("tracked") == 0.5
    assert found.waves.avoided(1, 900, found.now()) == ()  # two pods are too few


def lost_in(zone: str) -> float | None:
    return sample("retry_policy_spot_zone_lost_ratio", {"zone": zone})


OF_SET = {
    "apiVersion": f"{JOB_SET.group}/v1alpha2",
    "kind": "JobSet",
    "name": "set",
    "uid": "set-uid",
    "controller": True,
}


def before_restart() -> tuple[Trackers, Json, Pod]:
    """Return the trackers of a JobSet that restarts, its Job before that, and a pod of it that has failed."""
    above, pod = job_set(), failed(1, job="set-train", job_set="set", index="0")
    above["metadata"]["resourceVersion"] = "1"
    root = job({"parallelism": 1}, name="set-train", ownerReferences=[OF_SET], **{**STORED, "labels": {}})
    return trackers(root, above, pod), root, pod


def first_index(found: Trackers, root: Json) -> tuple[Pod, ...] | None:
    """Return the ended pods before a pod of the first index of a Job of the JobSet."""
    annotations = {"batch.kubernetes.io/job-completion-index": "0"}
    counts = counted(found, root, {"labels": SET_LABELS, "annotations": annotations})
    return None if counts is None else counts.ended


def test_after_a_restart_of_a_job_set_its_ended_pods_are_known_before_the_watch_delivers_the_new_job() -> None:
    found, root, pod = before_restart()
    new = {**root, "metadata": {**root["metadata"], "uid": "uid of the new Job"}}
    assert first_index(found, new) == (pod,)


def test_a_new_job_set_with_the_name_of_an_old_one_begins_without_ended_pods() -> None:
    found, root, _ = before_restart()
    above = job_set()
    above["metadata"] |= {"resourceVersion": "2", "uid": "uid of the new JobSet"}
    found.see_job_set(listed(found.cluster.job_sets, above))
    assert first_index(found, root) == ()


LACKED: dict[str, Any] = {"reason": "SpotUnavailable"}


def lacks_spot(found: Trackers, root: Json, **metadata: Any) -> bool:
    counts = counted(found, root, metadata)
    assert counts is not None
    return counts.spot_unavailable


def at_index(index: str) -> Json:
    return {"batch.kubernetes.io/job-completion-index": index}


def test_the_pods_after_one_that_no_spot_node_took_know_it() -> None:
    root = job(**STORED)
    assert not lacks_spot(trackers(root, None, disrupted(1)), root)
    assert lacks_spot(trackers(root, None, disrupted(1, **LACKED), failed(2)), root)


def test_only_the_pods_of_the_same_index_know_it() -> None:
    root = job({"completionMode": "Indexed", "completions": 4, "parallelism": 4}, **STORED)
    found = trackers(root, None, disrupted(1, index="1", **LACKED))
    assert [lacks_spot(found, root, annotations=at_index(index)) for index in ("0", "1")] == [False, True]


def test_it_is_forgotten_after_five_others_have_ended() -> None:
    root = job(**STORED)
    found = trackers(root, None, disrupted(1, **LACKED), *(failed(number) for number in range(2, 7)))
    assert not lacks_spot(found, root)


def test_all_pods_of_a_job_set_know_it() -> None:
    reference = {"apiVersion": JOB_SET.api_version, "kind": "JobSet", "name": "set", "uid": "set-uid"}
    root = job(**STORED, ownerReferences=[{**reference, "controller": True}])
    above = job_set()
    above["metadata"]["resourceVersion"] = "1"
    found = trackers(root, above, disrupted(1, index="1", job_set="set", **LACKED))
    assert lacks_spot(found, root, labels=SET_LABELS, annotations=at_index("0"))


ENDED_AT = "2026-01-01T00:00:00Z"
FAILED = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "lastTransitionTime": ENDED_AT}
KEY = Key("ml", batch.JOB, "train")


def ended_job() -> Json:
    root = job({"parallelism": 1}, **STORED)
    return {**root, "status": {"failed": 1, "conditions": [FAILED]}}


def long_after(found: Trackers) -> Trackers:
    """Let a day have passed since ENDED_AT."""
    found.now = lambda: (seconds(ENDED_AT) or 0.0) + 86_400
    return found


@pytest.mark.parametrize("order", [*permutations(("job", "account", "pod"))])
def test_of_a_job_that_ended_long_ago_only_its_account_is_kept(order: tuple[str, ...]) -> None:
    cluster = opted_in(Cluster(NO_API))
    found = long_after(Trackers(cluster))
    root, text = ended_job(), encode(Account(ended=1, cost={"retry": 1}, recent=[id_of(failed(1))]))
    for what in order:
        if what == "job":
            found.see_job(listed(cluster.jobs, root), news=False)
        elif what == "account":
            see_account(found, batch.JOB, root, text)
        else:
            found.see_pod(failed(1), news=False)
    assert found.states == {}
    assert found.state_of(KEY).account.ended == 1  # what the leader begins with


def test_a_pod_that_the_account_of_such_a_job_lacks_is_still_counted() -> None:
    cluster = opted_in(Cluster(NO_API))
    found = long_after(Trackers(cluster))
    root = ended_job()
    found.see_job(listed(cluster.jobs, root), news=False)
    see_account(found, batch.JOB, root, encode(Account(ended=1, cost={"retry": 1}, recent=[id_of(failed(1))])))
    found.see_pod(failed(1), news=False)
    found.see_pod(failed(2), news=False)
    state = found.states[KEY]
    assert [pod.name for pod in state.tracker.uncounted(state.account)] == [failed(2).name]


def test_what_is_known_of_a_job_that_has_just_ended_is_kept() -> None:
    cluster = opted_in(Cluster(NO_API))
    found = Trackers(cluster)
    found.now = lambda: (seconds(ENDED_AT) or 0.0) + 60
    root = ended_job()
    found.see_job(listed(cluster.jobs, root), news=False)
    see_account(found, batch.JOB, root, encode(Account(ended=1, cost={"retry": 1}, recent=[id_of(failed(1))])))
    assert KEY in found.states


@pytest.mark.parametrize(
    ("fault", "workloads"),
    [("condition KernelDeadlock is True", 1), ("condition Ready is Unknown (NodeStatusUnknown)", 0), (GONE, 0)],
)
def test_that_a_node_is_gone_or_not_ready_blames_no_node(fault: str, workloads: int) -> None:
    root, account = job(**STORED), Account()
    account.count(outcome_of(failed(node="a"), root), "", 0)
    account.blame("train-1", fault, None, returns=True, in_status=True)
    found = trackers(root, None)
    found.now = lambda: 1767225660.0
    see_account(found, batch.JOB, root, encode(account))
    assert len(found.faulty_nodes.nodes) == workloads
