"""What the leader does to pods that run and tell no progress. All times are virtual."""

import asyncio
import random
from typing import Any, Final

import pytest
from msgspec.structs import replace

from tests.metrics import counted
from tests.unit.accounts.pods import RULES, running_pod
from tests.unit.controller.leader import JOB_PATH, Answer, FakeApi, events_of
from tests.unit.controller.test_waiting import POD_PATH, STATUS_PATH, act, at, ledger, see, stored, stored_job, take
from tests.virtual_time import run
from webhook.controller.ledger import Ledger
from webhook.kube import names
from webhook.kube.client import ApiError
from webhook.objects.problem import Json
from webhook.pods import pods as read_pods
from webhook.policy.model import Duration, Profile
from webhook.systems.job.rules.failure_policy import stall_rule
from webhook.tracking.nodes import NODES

TIMEOUT: Final = 60  # seconds
PROFILE: Final = Profile(stall_timeout=Duration(TIMEOUT))
REPORTS: Final = replace(PROFILE, actions="Report")
COUNTS: Final[Json] = {"podFailurePolicy": {"rules": [stall_rule(), *RULES]}}
MARK: Final[Json] = {"type": names.STALLED, "status": "True"}


def telling(progress: str | None, *conditions: Json, **spec: Any) -> Json:
    """Return a running pod that tells its progress."""
    root = stored({"nodeName": "spot-1", **spec}, [*conditions], phase="Running", startTime=at(0))
    if progress is not None:
        root["metadata"]["annotations"][names.PROGRESS] = progress
    return root


def watching(api: FakeApi, root: Json, profile: Profile = PROFILE, spec: Json = COUNTS, **ready: str) -> Ledger:
    """Return a leader that has seen one running pod; `ready`: fields of the condition Ready of its node."""
    found = ledger(api, profile, spec=spec)
    api.objects[JOB_PATH] = stored_job(**spec)
    condition = {"type": "Ready", "status": "True", **ready}
    api.objects[NODES] = {"items": [{"status": {"conditions": [condition]}}]}
    take(found, api, root)
    return found


def watched(
    root: Json, seconds: float, profile: Profile = PROFILE, *, ready: str = "True", spec: Json = COUNTS
) -> tuple[FakeApi, list[tuple[str, str]]]:
    """Return what the leader wrote and told in some seconds with one running pod; `ready`: what its node says."""

    async def work() -> list[tuple[str, str]]:
        found = watching(api, root, profile, spec, status=ready)
        await act(found, seconds)
        return events_of(found)

    api = FakeApi()
    return api, run(work())


def test_a_pod_that_tells_no_progress_in_time_is_marked_and_ended_by_its_kubelet() -> None:
    api, _ = watched(telling("0.42"), TIMEOUT + 5)
    mark, end = api.writes
    assert (mark.path, end.path) == (STATUS_PATH, POD_PATH)
    assert mark.at >= TIMEOUT
    (condition,) = mark.operations[-1]["value"]
    assert (condition["type"], condition["status"]) == (names.STALLED, "True")
    assert condition["message"] == "no progress beyond 42.0% in 60 s; find out where the program hangs"
    assert end.operations[-1]["path"] == "/spec/activeDeadlineSeconds"
    assert TIMEOUT <= end.operations[-1]["value"] <= TIMEOUT + 5


@pytest.mark.parametrize(
    ("root", "profile"),
    [
        (telling("0.42"), Profile()),
        (telling(None), PROFILE),
        (telling("1"), PROFILE),
        (telling("much"), PROFILE),
    ],
    ids=["no timeout", "never told", "all done", "no number"],
)
def test_a_pod_of_which_nothing_is_expected_is_left_alone(root: Json, profile: Profile) -> None:
    assert watched(root, 50 * TIMEOUT, profile)[0].writes == []


def test_five_hundred_slow_programs_that_get_on_are_left_alone() -> None:
    async def work() -> None:
        found = ledger(api, PROFILE, spec=COUNTS)
        drawn = random.Random(7)  # noqa: S311 - no secret

        async def tells(number: int) -> None:
            for step in range(20):
                see(found, running_pod(number, progress=step / 1000))
                await asyncio.sleep(drawn.uniform(0.5, 0.99) * TIMEOUT)
            see(found, running_pod(number, phase="Succeeded"))

        async with asyncio.TaskGroup() as group:
            group.create_task(act(found, 20 * TIMEOUT))
            for number in range(500):
                group.create_task(tells(number))

    api = FakeApi()
    run(work())
    assert api.writes == []


def test_the_time_begins_anew_after_a_gap_in_the_watch() -> None:
    async def work() -> None:
        found = watching(api, telling("0.42"))
        await act(found, TIMEOUT - 10)
        found.trackers.pods.live = False
        await act(found, TIMEOUT)
        found.trackers.pods.live = True
        await act(found, TIMEOUT - 10)
        assert api.writes == []
        await act(found, 20)

    api = FakeApi()
    run(work())
    assert [write.path for write in api.writes] == [STATUS_PATH, POD_PATH]


def test_a_pod_on_a_node_that_does_not_report_may_have_told_what_nobody_heard() -> None:
    assert watched(telling("0.42"), 3 * TIMEOUT, ready="Unknown")[0].writes == []


def test_a_pod_is_left_alone_whose_job_would_fail_by_the_exit_code_of_its_end() -> None:
    assert watched(telling("0.42"), 3 * TIMEOUT, spec={"podFailurePolicy": {"rules": RULES}})[0].writes == []


def test_what_the_watch_has_not_delivered_yet_counts() -> None:
    async def work() -> None:
        found = watching(api, telling("0.42"))
        api.objects[POD_PATH] = telling("0.43")
        await act(found, 2 * TIMEOUT)

    api = FakeApi()
    run(work())
    assert api.writes == []


def test_another_leader_ends_a_pod_that_is_marked_already() -> None:
    api, _ = watched(telling("0.42", MARK), TIMEOUT + 5)
    (write,) = api.writes
    assert (write.path, write.operations[-1]["path"]) == (POD_PATH, "/spec/activeDeadlineSeconds")
    before = counted("retry_policy_leader_actions_total", action="evict", result="taken")
    assert watched(telling("0.42", MARK, activeDeadlineSeconds=1), 10 * TIMEOUT)[0].writes == []
    assert counted("retry_policy_leader_actions_total", action="evict", result="taken") == before


def test_a_mark_alone_ends_nothing_that_the_profile_only_reports() -> None:
    assert watched(telling("0.42", MARK), 2 * TIMEOUT, REPORTS)[0].writes == []


def test_a_program_that_goes_on_after_it_was_marked_is_not_ended() -> None:
    async def work() -> None:
        found = watching(api, telling("0.42"))
        await act(found, TIMEOUT + 3)
        take(found, api, telling("0.43", MARK))
        await act(found, TIMEOUT - 10)

    api = FakeApi(Answer(), Answer(error=ApiError(500, "busy")))
    run(work())
    assert [write.path for write in api.writes].count(POD_PATH) == 1  # the one that failed


def test_the_time_in_which_its_node_did_not_report_does_not_count() -> None:
    async def work() -> None:
        found = watching(api, telling("0.42"), lastTransitionTime=at(TIMEOUT - 10))
        await act(found, 2 * TIMEOUT - 15)
        assert api.writes == []
        await act(found, 20)

    api = FakeApi()
    run(work())
    assert [write.path for write in api.writes] == [STATUS_PATH, POD_PATH]


def test_what_an_init_container_has_told_at_its_end_is_not_the_progress_of_a_program_that_runs() -> None:
    ended = {"name": "prepare", "state": {"terminated": {"exitCode": 0, "message": f"{names.PROGRESS}=0.9"}}}
    root = telling("0.42")
    root["status"]["containerStatuses"] = [ended]
    assert read_pods.read(root).progress == 0.42
    root["status"]["phase"] = "Failed"
    assert read_pods.read(root).progress == 0.9


def test_a_pod_is_left_alone_whose_author_judges_the_end_first() -> None:
    bug = {"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [143]}}
    assert (
        watched(telling("0.42"), 3 * TIMEOUT, spec={"podFailurePolicy": {"rules": [bug, stall_rule()]}})[0].writes == []
    )


def test_with_actions_report_an_event_says_what_would_be_done() -> None:
    api, told = watched(telling("0.42"), TIMEOUT + 5, REPORTS)
    assert api.writes == []
    assert any("no progress beyond 42.0% in 60 s" in message for _, message in told)
