"""Retries that count no more: after a time, or because an attempt gets further than all before it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.objects import DISRUPTION
from tests.unit.accounts.pods import failed, job
from tests.unit.controller.leader import (
    JOB_PATH,
    KEY,
    Answer,
    FakeApi,
    Write,
    failures,
    new_ledger,
    running,
    see_job,
    set_policy,
    spec_writes,
    stored_pod,
    tell,
    watch_event,
)
from tests.virtual_time import now, run
from webhook.accounts.account import RENEWING, WHOLE, Account, Left
from webhook.accounts.counted import PodsOfJob
from webhook.accounts.counting import CountingPass, count
from webhook.accounts.stored import decode, encode
from webhook.accounts.tracker import Tracker
from webhook.controller.ledger import Ledger
from webhook.kube import names
from webhook.kube.client import ApiError
from webhook.objects.problem import Json
from webhook.objects.times import seconds
from webhook.pods.outcomes import outcome_of
from webhook.policy.model import Delay, Disruptions, Duration, FailureRule, Match, Next, Profile, Retries
from webhook.policy.settings import NamedProfile
from webhook.tracking.workload_state import INTERVAL

PER: Final = 1200  # seconds
BY_TIME: Final = Profile(retries=Retries(per=Duration(PER)))
BY_PROGRESS: Final = Profile(retries=Retries(renew_on_progress=True))
SPEC: Final[Json] = {"podFailurePolicy": {"rules": [DISRUPTION]}, "backoffLimit": 2}
BEGIN: Final = seconds("2026-01-01T00:01:00Z") or 0.0  # when the pods end


@asynccontextmanager
async def watching(api: FakeApi, profile: Profile, spec: Json = SPEC) -> AsyncIterator[Ledger]:
    """Yield a leader that watches a Job."""
    api.objects[JOB_PATH] = {**job(spec), "metadata": {**job()["metadata"], "resourceVersion": "7"}}
    ledger = new_ledger(api, profile)
    ledger.trackers.now = lambda: BEGIN + now()
    async with running(ledger):
        see_job(ledger, spec=spec)
        yield ledger


async def fails(
    api: FakeApi, ledger: Ledger, number: int, progress: str = "", code: int = 143, *, succeeded: int = 0, **spec: Any
) -> None:
    """Let a pod run, tell its progress and fail, and its end be counted; `succeeded`: pods of its Job, by then."""
    status = {"succeeded": succeeded}
    said: Json = {"annotations": {names.PROGRESS: progress}} if progress else {}
    tell(api, watch_event("ADDED", stored_pod(number)))
    tell(api, watch_event("MODIFIED", stored_pod(number, **said)))
    await asyncio.sleep(2 * INTERVAL)
    text = api.account_writes()[-1].text if api.account_writes() else None
    see_job(ledger, text, spec={**SPEC, **spec}, status={"failed": number - 1, **status})
    tell(api, watch_event("MODIFIED", stored_pod(number, "Failed", code, **said)))
    await asyncio.sleep(2 * INTERVAL)
    see_job(ledger, api.account_writes()[-1].text, spec={**SPEC, **spec}, status={"failed": number, **status})
    await asyncio.sleep(2 * INTERVAL)


def limits(api: FakeApi) -> list[int]:
    """Return what the leader has raised backoffLimit to."""
    return [write.operations[-1]["value"] for write in spec_writes(api)]


def test_a_job_gets_its_retries_back_once_their_time_is_over_before_it_needs_them() -> None:
    async def work() -> None:
        async with watching(api, BY_TIME) as ledger:
            await fails(api, ledger, 1)
            await fails(api, ledger, 2)
            assert not spec_writes(api)
            await asyncio.sleep(PER)

    api = FakeApi()
    run(work())
    assert limits(api) == [4]
    assert spec_writes(api)[0].at >= PER
    account = api.account_writes()[-1].account
    assert (account.renewed, account.retry_window_start) == (2, "")


def test_a_leader_that_starts_after_the_time_raises_the_limit_at_once() -> None:
    async def count() -> str:
        async with watching(api, BY_TIME) as ledger:
            await fails(api, ledger, 1)
            return api.account_writes()[-1].text

    async def begin(text: str) -> None:
        api.objects[JOB_PATH] = {**job(SPEC), "metadata": {**job()["metadata"], "resourceVersion": "7"}}
        ledger = new_ledger(api, BY_TIME)
        ledger.trackers.now = lambda: BEGIN + PER + now()
        see_job(ledger, text, spec=SPEC, status={"failed": 1})
        async with running(ledger):
            await asyncio.sleep(5 * INTERVAL)

    api = FakeApi()
    text = run(count())
    api = FakeApi()  # watches belong to one event loop
    run(begin(text))
    assert limits(api) == [3]


def test_an_attempt_that_gets_five_percent_further_gives_the_job_its_retries_back_while_it_runs() -> None:
    async def work() -> None:
        async with watching(api, BY_PROGRESS) as ledger:
            await fails(api, ledger, 1, "0.30")
            tell(api, watch_event("ADDED", stored_pod(2, annotations={names.PROGRESS: "0.34"})))
            await asyncio.sleep(5 * INTERVAL)
            assert not spec_writes(api)
            tell(api, watch_event("MODIFIED", stored_pod(2, annotations={names.PROGRESS: "0.35"})))
            await asyncio.sleep(5 * INTERVAL)

    api = FakeApi()
    run(work())
    assert limits(api) == [3]
    account = api.account_writes()[-1].account
    assert (account.renewed, account.reached.of("")) == (1, 350)


@pytest.mark.parametrize(
    "spec",
    [{"completions": 100, "parallelism": 4}, {"completions": 100, "parallelism": 1, "completionMode": "Indexed"}],
    ids=["side by side", "indexes"],
)
def test_five_percent_more_of_its_completions_give_a_job_all_its_retries_back(spec: Json) -> None:
    async def work() -> None:
        async with watching(api, BY_PROGRESS, {**SPEC, **spec}) as ledger:
            see_job(ledger, spec={**SPEC, **spec}, status={"succeeded": 40})
            await fails(api, ledger, 1, succeeded=52, **spec)
            await fails(api, ledger, 2, succeeded=56, **spec)
            assert not spec_writes(api)
            text = api.account_writes()[-1].text
            see_job(ledger, text, spec={**SPEC, **spec}, status={"failed": 2, "succeeded": 57})
            await asyncio.sleep(5 * INTERVAL)

    api = FakeApi()
    run(work())
    assert limits(api) == [4]
    account = api.account_writes()[-1].account
    assert (account.renewed, account.reached.of("")) == (2, 570)


def test_completions_before_the_first_retry_renew_nothing_once_a_policy_says_that_more_of_them_do() -> None:
    spec = {**SPEC, "completions": 100, "parallelism": 4}

    async def work() -> None:
        async with watching(api, BY_TIME, spec) as ledger:
            see_job(ledger, spec=spec, status={"succeeded": 60})
            await fails(api, ledger, 1, succeeded=60, **spec)
            set_policy(ledger, profiles={"default": BY_PROGRESS})
            for succeeded, raised in ((64, False), (65, True)):
                text = api.account_writes()[-1].text
                see_job(ledger, text, spec=spec, status={"failed": 1, "succeeded": succeeded})
                await asyncio.sleep(5 * INTERVAL)
                assert bool(spec_writes(api)) is raised

    api = FakeApi()
    run(work())
    assert limits(api) == [3]


def test_the_progress_of_a_pod_that_may_do_anothers_work_gives_no_retries_back() -> None:
    spec = {"completions": 100, "parallelism": 4}

    async def work() -> None:
        async with watching(api, BY_PROGRESS, {**SPEC, **spec}) as ledger:
            await fails(api, ledger, 1, "0.10", **spec)
            tell(api, watch_event("ADDED", stored_pod(2, annotations={names.PROGRESS: "0.90"})))
            await asyncio.sleep(5 * INTERVAL)
            await fails(api, ledger, 3, "0.95", **spec)

    api = FakeApi()
    run(work())
    assert spec_writes(api) == []


@pytest.mark.parametrize(
    "profile",
    [BY_PROGRESS, Profile(retries=Retries(per=Duration(1)))],
    ids=["as it told while it ran", "by time"],
)
def test_an_attempt_that_ends_as_retries_are_given_back_costs_one_of_them_and_not_the_job(profile: Profile) -> None:
    async def work() -> None:
        async with watching(api, profile, {**SPEC, "backoffLimit": 1}) as ledger:
            await fails(api, ledger, 1, "0.10", backoffLimit=1)
            tell(api, watch_event("ADDED", stored_pod(2)))
            said: Json = {"annotations": {names.PROGRESS: "0.50"}}
            tell(api, watch_event("MODIFIED", stored_pod(2, **said)))
            tell(api, watch_event("MODIFIED", stored_pod(2, "Failed", 143, **said)))
            await asyncio.sleep(5 * INTERVAL)

    api = FakeApi()
    run(work())
    account = api.account_writes()[-1].account
    assert (account.cost, limits(api)[-1]) == ({"retry": 2}, 2)
    assert account.last[-1].left == account.left
    assert account.left == Left(retries=0, disruptions=1)


def test_a_job_that_its_controller_has_ended_gets_no_retries_back() -> None:
    ended = {"failed": 2, "conditions": [{"type": "FailureTarget", "status": "True"}]}
    spec = {**SPEC, "backoffLimit": 1}

    async def work() -> None:
        async with watching(api, BY_PROGRESS, spec) as ledger:
            await fails(api, ledger, 1, "0.10", backoffLimit=1)
            see_job(ledger, api.account_writes()[-1].text, spec=spec, status=ended)
            tell(api, watch_event("ADDED", stored_pod(2, "Failed", 143, annotations={names.PROGRESS: "0.50"})))
            await asyncio.sleep(5 * INTERVAL)

    api = FakeApi()
    run(work())
    account = api.account_writes()[-1].account
    assert (account.cost, account.renewed, limits(api)) == ({"retry": 1, "fatal": 1}, 0, [])


def test_an_attempt_that_ended_further_is_the_first_one_again() -> None:
    async def work() -> None:
        async with watching(api, BY_PROGRESS) as ledger:
            await fails(api, ledger, 1, "0.10")
            await fails(api, ledger, 2, "0.50")

    api = FakeApi()
    run(work())
    account = api.account_writes()[-1].account
    assert account.retries_of("") == 1
    assert limits(api)[-1] == 3


@pytest.mark.parametrize(
    ("second", "code", "is_bug"),
    [("0.42", 143, True), ("0.43", 143, False), ("0.42", 77, False), ("", 143, False)],
    ids=["the same", "further", "another end", "not told"],
)
def test_two_attempts_that_end_alike_at_the_same_place_are_a_bug(second: str, code: int, *, is_bug: bool) -> None:
    async def work() -> None:
        async with watching(api, BY_PROGRESS) as ledger:
            await fails(api, ledger, 1, "0.42")
            await fails(api, ledger, 2, second, code)

    api = FakeApi()
    run(work())
    assert bool(failures(api)) is is_bug
    if is_bug:
        (condition,) = failures(api)[0].operations[-1]["value"]
        assert condition["reason"] == "NoProgress"
        assert condition["message"] == (
            "pod ml/train-2: ended as the attempt before it, and got no further: container main exit code 143, "
            "with 42.0% of its work saved"
        )


@pytest.mark.parametrize(
    ("profile", "spec"),
    [
        (Profile(), SPEC),
        (Profile(retries=Retries(per=Duration(PER)), actions="Report"), SPEC),
        (
            BY_TIME,
            {**SPEC, "completionMode": "Indexed", "completions": 2, "backoffLimitPerIndex": 1, "backoffLimit": 9},
        ),
    ],
    ids=["for life", "only reported", "immutable retries of indexes"],
)
def test_retries_count_for_life_where_they_are_not_renewed(profile: Profile, spec: Json) -> None:
    async def work() -> None:
        async with watching(api, profile, spec) as ledger:
            await fails(api, ledger, 1, "0.10", **spec)
            await fails(api, ledger, 2, "0.60", **spec)
            await asyncio.sleep(2 * PER)

    api = FakeApi()
    run(work())
    assert spec_writes(api) == []
    assert api.account_writes()[-1].account.renewed == 0


@pytest.mark.parametrize("error", [ApiError(503, "busy"), ApiError(409, "changed"), OSError("reset")])
def test_a_raise_is_tried_again_until_it_is_refused(error: Exception) -> None:
    async def work() -> None:
        async with watching(api, BY_TIME) as ledger:
            await fails(api, ledger, 1)
            api.answers.extend([Answer(), Answer(error=error)])  # to the account, and to the raise
            await asyncio.sleep(PER + 120)

    api = FakeApi()
    run(work())
    assert limits(api) == [3, 3]


class Delivering(FakeApi):
    """Lets the watch deliver each account that is written."""

    ledger: Ledger | None = None

    async def take(self, write: Write) -> None:
        await super().take(write)
        if write.is_of_account and self.ledger is not None:
            see_job(self.ledger, write.text, spec=SPEC, status={"failed": 1})


@pytest.mark.parametrize("status", [400, 403, 422])
def test_a_raise_that_is_refused_is_not_tried_again(status: int) -> None:
    async def work() -> None:
        async with watching(api, BY_TIME) as ledger:
            await fails(api, ledger, 1)
            api.ledger = ledger
            api.answers.extend([Answer(), Answer(error=ApiError(status, "denied by another policy"))])
            await asyncio.sleep(2 * PER)

    api = Delivering()
    run(work())
    assert limits(api) == [3]


def test_after_somebody_has_lowered_the_limit_the_next_renewal_raises_it_again() -> None:
    async def work() -> None:
        async with watching(api, BY_PROGRESS) as ledger:
            await fails(api, ledger, 1, "0.10")
            await fails(api, ledger, 2, "0.50")
            see_job(ledger, api.account_writes()[-1].text, spec={**SPEC, "backoffLimit": 3}, status={"failed": 2})
            await asyncio.sleep(3 * INTERVAL)
            see_job(ledger, api.account_writes()[-1].text, spec=SPEC, status={"failed": 2})
            tell(api, watch_event("ADDED", stored_pod(3, annotations={names.PROGRESS: "0.90"})))
            await asyncio.sleep(5 * INTERVAL)

    api = FakeApi()
    run(work())
    assert limits(api) == [3, 3]


@pytest.mark.parametrize(
    "spec",
    [
        {"completions": 4, "parallelism": 4},
        {"completions": 4, "parallelism": 4, "completionMode": "Indexed"},
        {"completions": 4, "parallelism": 1, "completionMode": "Indexed", "backoffLimitPerIndex": 2, "backoffLimit": 9},
    ],
    ids=["side by side", "depend on each other", "indexes with retries of their own"],
)
def test_pods_that_end_alike_are_no_bug_where_none_follows_the_other(spec: Json) -> None:
    async def work() -> None:
        async with watching(api, BY_PROGRESS, {**SPEC, **spec}) as ledger:
            await fails(api, ledger, 1, "0.42", **spec)
            await fails(api, ledger, 2, "0.42", **spec)

    api = FakeApi()
    run(work())
    assert failures(api) == []


def test_a_rule_that_gives_the_next_attempt_something_else_is_tried_at_the_same_place() -> None:
    later = FailureRule(match=Match(exit_codes=(143,)), next=Next(delay=Delay(initial=Duration(1))))

    async def work() -> None:
        async with watching(api, Profile(retries=BY_PROGRESS.retries, on_failure=(later,))) as ledger:
            await fails(api, ledger, 1, "0.42")
            await fails(api, ledger, 2, "0.42")

    api = FakeApi()
    run(work())
    assert failures(api) == []


@pytest.mark.parametrize("mode", ["Warn", None])
def test_a_workload_whose_time_is_over_is_not_looked_at_for_ever_where_nothing_is_done(mode: str | None) -> None:
    async def work() -> None:
        async with watching(api, BY_TIME) as ledger:
            await fails(api, ledger, 1)
            set_policy(ledger, profiles={"default": replace(BY_TIME, actions="Act" if mode else "Report")})
            ledger.cluster.namespaces.items["", "ml"] = ("default", mode)
            await asyncio.sleep(PER + 10)
            assert ledger.later == {}

    api = FakeApi()
    run(work())
    assert spec_writes(api) == []


def test_a_failure_that_counts_no_more_is_not_given_back_again_for_a_fault_of_its_node() -> None:
    account = Account()
    pod = failed(1, 143)
    account.count(outcome_of(pod, job()), "", 0)
    account.spend_retry("", pod.finished, None)
    account.get_further("", 900)
    assert (account.renewed, account.given_back) == (1, 1)
    account.blame(pod.name, "the node is gone", None, returns=True, in_status=True)
    assert (account.renewed, account.returned, account.given_back) == (0, 1, 1)


def test_faults_of_several_nodes_give_back_no_more_than_the_limit_of_the_profile() -> None:
    profile, root = Profile(disruptions=Disruptions(limit=5)), job({"backoffLimit": 9})
    crashed = [failed(number, 143) for number in range(4)]
    tracker, account = Tracker(find=lambda *_: root), Account()
    settings = NamedProfile("default", profile).settings({})
    for pod in crashed:
        tracker.see(pod, 0.0)
        account.count(outcome_of(pod, root), "", 0)
    found = CountingPass(KEY, root, None, tracker, account, lambda _: settings)
    for pod in crashed:
        found.blame(pod.name, "the node is gone")
    assert (account.returned, account.backoff_limit) == (1, 10)


def test_a_scope_that_the_account_has_no_room_for_gets_no_retries_back_again_and_again() -> None:
    account = Account()
    for scope in map(str, range(400)):
        account.get_further(scope, 300 + int(scope))
    account = decode(encode(account))
    assert account.reached.others
    renewals = 0
    for _ in range(100):
        account.spend_retry("399", "", None)
        before = account.renewed
        account.get_further("399", 699)
        renewals += account.renewed != before
    assert renewals <= 1


@given(st.lists(st.tuples(st.booleans(), st.integers(0, WHOLE)), max_size=200))
def test_nobody_gets_retries_back_more_than_twenty_times(told: list[tuple[bool, int]]) -> None:
    account, renewals = Account(), 0
    for fails_then, progress in told:
        before = account.renewed
        account.get_further("", progress)
        renewals += account.renewed != before
        if fails_then:
            account.spend_retry("", "", None)
    assert renewals <= WHOLE // RENEWING


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, WHOLE)), max_size=200))
def test_no_job_gets_its_retries_back_more_than_twenty_times_for_its_completions(told: list[tuple[int, int]]) -> None:
    account, renewals = Account(), 0
    for fails_then, completed in told:
        before = account.renewed
        account.complete(completed)
        renewals += account.renewed != before
        for index in range(fails_then):
            account.spend_retry(str(index), "", None)
    assert renewals <= WHOLE // RENEWING


def test_failures_that_nobody_has_seen_count_no_more_after_the_time_either() -> None:
    async def work() -> None:
        async with watching(api, BY_TIME) as ledger:
            await fails(api, ledger, 1)
            see_job(ledger, api.account_writes()[-1].text, spec=SPEC, status={"failed": 2})
            await asyncio.sleep(30)
            see_job(ledger, api.account_writes()[-1].text, spec=SPEC, status={"failed": 2})
            await asyncio.sleep(PER)

    api = FakeApi()
    run(work())
    assert limits(api) == [4]


def test_of_a_job_of_a_job_set_that_is_not_known_no_retry_is_given_back() -> None:
    account = Account()
    count(account, failed(1, 143, job_set="set"), PodsOfJob(job(), None, NamedProfile("default", BY_TIME).settings({})))
    assert account.retries is None
