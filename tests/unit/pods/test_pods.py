"""The fields of a pod that the ledger keeps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.objects import pod
from webhook.kube import names
from webhook.kube.state_key import SIZE, StateKey
from webhook.objects.problem import Json
from webhook.pods.pods import LONGEST, MOST, Condition, Exit, Pod, pack, read, unpack
from webhook.pods.restarts import LastExit, Restarts
from webhook.pods.waiting import Stalled, Waiting
from webhook.systems.pods import Elsewhere


def status(**fields: object) -> Json:
    return {**pod(uid="u", namespace="ml", name="train-1"), "status": fields}


def terminated(name: str, code: int, reason: str = "Error", at: str = "2026-01-01T00:01:00Z") -> Json:
    return {"name": name, "state": {"terminated": {"exitCode": code, "reason": reason, "finishedAt": at}}}


def test_a_failed_pod_keeps_its_conditions_and_the_containers_that_failed() -> None:
    disrupted = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
    found = read(
        status(
            phase="Failed",
            conditions=[disrupted, {"type": "Ready", "status": "False"}],
            containerStatuses=[terminated("main", 143), terminated("log", 0), {"name": "side", "state": {}}],
            initContainerStatuses=[terminated("setup", 2)],
        )
    )
    assert found.conditions == (
        Condition("DisruptionTarget", "True", "EvictionByEvictionAPI", ""),
        Condition("Ready", "False", "", ""),
    )
    at = "2026-01-01T00:01:00Z"
    assert found.exits == (Exit("main", 143, "Error", at), Exit("setup", 2, "Error", at, is_init=True))
    assert (found.has_ended, found.has_failed, found.ended) == (True, True, at)


def test_the_containers_that_failed_share_what_is_kept_of_their_last_words() -> None:
    def ended(name: str, message: str) -> Json:
        found = terminated(name, 1)
        found["state"]["terminated"]["message"] = message
        return found

    alone = read(status(phase="Failed", containerStatuses=[ended("main", "é" * 5_000 + "!"), terminated("side", 1)]))
    assert [one.message for one in alone.exits] == ["é" * 511 + "!", ""]
    both = read(status(phase="Failed", containerStatuses=[ended("main", "a" * 5_000), ended("side", "short")]))
    assert [one.message for one in both.exits] == ["a" * 512, "short"]


def test_what_the_kubelet_says_of_a_container_that_it_has_lost_is_not_its_last_words() -> None:
    lost = terminated("main", 137)
    told = {
        "reason": "ContainerStatusUnknown",
        "message": "The container could not be located when the pod was terminated",
    }
    lost["state"]["terminated"] |= told
    assert [one.message for one in read(status(phase="Failed", containerStatuses=[lost])).exits] == [""]


def test_a_running_pod_keeps_only_its_disruption_condition() -> None:
    conditions = [{"type": "Ready", "status": "True"}, {"type": "DisruptionTarget", "status": "True"}]
    found = read(status(phase="Running", conditions=conditions, startTime="2026-01-01T00:00:00Z"))
    assert [condition.type for condition in found.conditions] == ["DisruptionTarget"]
    assert found.disruption is not None
    assert (found.has_ended, found.started, found.ended) == (False, "2026-01-01T00:00:00Z", "")


def test_a_disruption_condition_with_status_false_is_no_disruption() -> None:
    found = read(status(phase="Failed", conditions=[{"type": "DisruptionTarget", "status": "False"}]))
    assert found.disruption is None


def test_a_pod_that_its_kubelet_refused_ended_with_its_last_condition() -> None:
    at = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": f"2026-01-01T00:00:0{at}Z"} for at in (1, 2)]
    refused = read(status(phase="Failed", reason="UnexpectedAdmissionError", conditions=at))
    assert refused.ended == "2026-01-01T00:00:02Z"
    assert read(status(phase="Succeeded", conditions=at)).ended == ""


def test_a_pod_that_no_scheduler_has_bound_and_its_kubelet_refused_ended_when_that_took_it() -> None:
    refused = read(status(phase="Failed", reason="OutOfcpu", startTime="2026-01-01T00:00:03Z"))
    assert refused.ended == "2026-01-01T00:00:03Z"


def test_a_pod_that_never_started_ended_when_it_was_deleted() -> None:
    root = status(phase="Failed")
    root["metadata"]["deletionTimestamp"] = "2026-01-01T00:02:00Z"
    found = read(root)
    assert (found.ended, found.deleting) == ("2026-01-01T00:02:00Z", True)


def test_a_pod_that_succeeded_ended_when_its_containers_did_whatever_happened_to_it_afterwards() -> None:
    lost = [{"type": "DisruptionTarget", "status": "True", "lastTransitionTime": "2026-01-01T09:00:00Z"}]
    pod = status(phase="Succeeded", containerStatuses=[terminated("main", 0)], conditions=lost)
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T10:00:00Z"
    assert read(pod).ended == "2026-01-01T00:01:00Z"


@pytest.mark.parametrize(
    ("annotation", "message", "progress"),
    [
        ("0.42", "", 0.42),
        (None, "saved epoch 7\nretry-policy.dev/progress=0.7\nbye", 0.7),
        ("0.42", "retry-policy.dev/progress=0.7", 0.7),
        (None, "retry-policy.dev/progress=0.1\nretry-policy.dev/progress=0.2", 0.2),
        ("1", "", 1.0),
        (None, "retry-policy.dev/progress=0.1\n" + "0.5\n" * 2000, None),
        ("1.5", "", None),
        ("nan", "retry-policy.dev/progress=1e9", None),
        ("0." + "9" * 1000, "retry-policy.dev/progress=", None),
        (None, "", None),
    ],
)
def test_a_pod_says_how_much_of_its_work_it_has_saved_in_an_annotation_or_its_last_words(
    annotation: str | None, message: str, progress: float | None
) -> None:
    said = {} if annotation is None else {names.PROGRESS: annotation}
    ended = {
        "terminated": {
            "exitCode": 143,
            "startedAt": "2026-01-01T00:00:07Z",
            "finishedAt": "2026-01-01T00:01:00Z",
            "message": message,
        }
    }
    status = {"phase": "Failed", "containerStatuses": [{"name": "main", "state": ended}]}
    found = read({"metadata": {"name": "train", "uid": "u", "annotations": said}, "status": status})
    assert (found.worked, found.progress) == (53, progress)


def test_a_pod_works_from_the_start_of_its_last_regular_container_to_the_end_of_the_first() -> None:
    """The program was killed after ten minutes, a sidecar of an author ended hours later."""
    ends = {"main": ["00:05", "10:00"], "logs": ["00:03", "59:00"]}
    states = [
        {
            "name": name,
            "state": {
                "terminated": {"exitCode": 1, "startedAt": f"2026-01-01T00:{a}Z", "finishedAt": f"2026-01-01T00:{b}Z"}
            },
        }
        for name, (a, b) in ends.items()
    ]
    assert read(status(phase="Failed", containerStatuses=states)).worked == 595


def test_a_pod_used_its_node_until_its_last_container_ended() -> None:
    containers = [terminated("main", 1), terminated("sidecar", 0, at="2026-01-01T01:00:00Z")]
    found = read(status(phase="Failed", containerStatuses=containers))
    assert (found.ended, found.finished) == ("2026-01-01T00:01:00Z", "2026-01-01T01:00:00Z")
    assert read(status(phase="Failed", containerStatuses=containers[:1])).finished == "2026-01-01T00:01:00Z"


def test_a_pod_ended_when_its_last_sidecar_did_whether_it_failed_or_succeeded() -> None:
    sidecars = [terminated("proxy", 0, at="2026-01-01T00:01:02Z"), terminated("setup", 0, at="2026-01-01T00:00:10Z")]
    for phase, code in (("Failed", 1), ("Succeeded", 0)):
        found = read(status(phase=phase, containerStatuses=[terminated("main", code)], initContainerStatuses=sidecars))
        assert found.finished == "2026-01-01T00:01:02Z"


def test_the_keys_that_controllers_and_the_webhook_wrote_are_read() -> None:
    root = status(phase="Running")
    root["metadata"] |= {
        "finalizers": ["batch.kubernetes.io/job-tracking"],
        "annotations": {
            "batch.kubernetes.io/job-completion-index": "7",
            "batch.kubernetes.io/job-index-failure-count": "2",
            "retry-policy.dev/placement": "OnDemand",
            "retry-policy.dev/attempt": "1",
            "retry-policy.dev/counted": "2026-01-01T00:00:00.000Z 0123456789abcdef",
        },
        "labels": {
            "jobset.sigs.k8s.io/jobset-name": "set",
            "jobset.sigs.k8s.io/restart-attempt": "3",
            "jobset.sigs.k8s.io/job-restart-attempt": "1",
        },
    }
    found = read(root)
    assert (found.tracked, found.index, found.attempt, found.index_failures, found.restart) == (True, "7", 1, 2, 4)
    assert (found.placement, found.counted, found.job_set) == ("OnDemand", True, "set")
    assert (found.job, found.job_uid) == ("train", "job-uid")


def test_a_disruption_is_kept_wherever_it_stands_among_thousands_of_conditions() -> None:
    others = [{"type": f"example.com/{number}", "status": "True", "reason": "x" * 1000} for number in range(5000)]
    found = read(status(phase="Failed", conditions=[*others, {"type": "DisruptionTarget", "status": "True"}]))
    assert len(found.conditions) == MOST
    assert found.disruption is not None
    assert all(len(condition.reason) <= LONGEST for condition in found.conditions)


def test_only_a_few_of_thousands_of_failed_containers_are_kept() -> None:
    assert len(read(status(phase="Failed", containerStatuses=[terminated("main", 1)] * 5000)).exits) == MOST


text, number = st.text(), st.integers(-(2**63), 2**63 - 1)
known = st.builds(
    Pod,
    max_retries=st.none() | number,
    elsewhere=st.none() | st.builds(Elsewhere),
    attempt=st.none() | number,
    conditions=st.lists(st.builds(Condition, text, text, text, text), max_size=2).map(tuple),
    exits=st.lists(st.builds(Exit, text, number, text, text, text), max_size=2).map(tuple),
    resources=st.lists(st.tuples(text, st.floats(allow_nan=False)), max_size=2).map(tuple),
    waiting=st.none() | st.builds(Waiting, stalled=st.none() | st.builds(Stalled)),
    restarts=st.none()
    | st.builds(
        Restarts, number=number, by_api=number, counted=number, last=st.none() | st.builds(LastExit, code=number)
    ),
)


@given(known)
def test_a_packed_pod_is_unpacked_as_it_was(found: Pod) -> None:
    assert unpack(pack(found)) == found


KEY = StateKey(b"k" * SIZE)
SAID = {
    names.ATTEMPT: "2",
    names.MAX_RETRIES: "3",
    names.DISRUPTIONS: "1",
    names.PLACEMENT: "Spot",
    names.AFTER_FAILURE: '{"nodes":["a"]}',
}


def carrying(annotations: dict[str, str]) -> Json:
    return pod(uid="u", namespace="ml", name="train-1", annotations=annotations)


def test_a_pod_that_admission_has_seen_is_believed() -> None:
    root = carrying(SAID)
    (controller,) = root["metadata"]["ownerReferences"]
    proof = KEY.proof_of_state("ml", controller["uid"], SAID)
    found = read(carrying({**SAID, names.PROOF: proof}), KEY)
    assert (found.attempt, found.disruptions, found.placement, found.after) == (2, 1, "Spot", '{"nodes":["a"]}')


def test_of_a_pod_that_admission_has_not_seen_nothing_is_believed_but_what_kubernetes_says() -> None:
    forged = {**SAID, names.COUNTED: "2026-01-01T00:00:00Z", names.PROOF: "0" * 32}
    found = read(carrying(forged), KEY)
    assert (found.attempt, found.disruptions, found.placement, found.after, found.counted) == (
        None,
        None,
        "",
        "",
        False,
    )
    assert (found.job, found.name) == ("train", "train-1")


def test_a_pod_of_another_workload_lacks_the_retries_that_its_author_wrote() -> None:
    owner = {"apiVersion": "tekton.dev/v1", "kind": "TaskRun", "name": "t", "uid": "t-uid", "controller": True}
    labels = {"tekton.dev/pipelineRun": "p", "tekton.dev/pipelineTask": "t"}
    root = carrying({names.MAX_RETRIES: "10"})
    root["metadata"] |= {"ownerReferences": [owner], "labels": labels}
    assert (read(root).max_retries, read(root, KEY).max_retries) == (10, None)


def test_only_a_mark_with_its_proof_keeps_a_pod_from_being_counted() -> None:
    assert read(carrying({names.COUNTED: KEY.mark("u", "now")}), KEY).counted
    assert not read(carrying({names.COUNTED: KEY.mark("other", "now")}), KEY).counted
    assert not read(carrying({names.COUNTED: KEY.mark("u", "restarts 2")}), KEY).counted


def test_where_nothing_is_decided_a_pod_is_shown_as_it_describes_itself() -> None:
    found = read(carrying({**SAID, names.COUNTED: KEY.mark("u", "now")}))
    assert (found.attempt, found.placement, found.counted) == (2, "Spot", True)
