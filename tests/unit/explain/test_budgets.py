"""What `explain` says of the budgets of a Job."""

from typing import Any

import msgspec
import pytest

from tests.objects import DISRUPTION, job_spec
from webhook.accounts.account import Account, Attempt
from webhook.accounts.forecast import Standing
from webhook.accounts.scopes import read
from webhook.explain.budgets import budgets_of, deadlines, job_budgets
from webhook.kube import names
from webhook.kube.names import POLICY
from webhook.objects.problem import Json
from webhook.objects.times import seconds
from webhook.policy.applied import applied
from webhook.policy.model import Disruptions, Duration, FailurePolicy, Profile, Retries
from webhook.policy.settings import NamedProfile
from webhook.rules.undo import Record
from webhook.systems.job.spec import JOB
from webhook.systems.tekton.spec import TASK_RUN

ENDED = {"conditions": [{"type": "Failed", "status": "True"}]}
ONE = NamedProfile("default", Profile(disruptions=Disruptions(limit=1))).settings({})


def budgets(
    account: Account | None = None, status: Json | None = None, profile: NamedProfile | None = None, **spec: Any
) -> list[str]:
    root: Json = {
        "metadata": {"namespace": "ml", "name": "train"},
        "spec": job_spec(**{"rules": [DISRUPTION], "backoffLimit": 6, **spec}),
        "status": status or {},
    }
    return list(job_budgets(root, account or Account(), ONE if profile is None else profile.settings({}), ()))


def test_the_disruption_limit_is_shown_before_a_pod_has_ended() -> None:
    assert budgets() == ["retries: 0 of 6 spent", "disruptions: 0 so far, 1 left"]


def test_the_disruption_limit_of_an_indexed_job_is_shown_for_each_index() -> None:
    account = Account(ended=2, cost={"disruption": 2}, scopes=read([(1, "0-1")]))
    found = budgets(account, completionMode="Indexed", completions=3, parallelism=3)
    assert found[1] == "disruptions: 2 so far; the limit for each index: 1"


BY_TIME, BY_PROGRESS = Retries(per=Duration(86_400)), Retries(renew_on_progress=True)


@pytest.mark.parametrize(
    ("retries", "spec", "expected"),
    [
        (BY_TIME, {}, "retries count no more from 2026-01-02T00:00:00Z on"),
        (BY_PROGRESS, {}, "retries count no more once an attempt has told that 40.0% is done"),
        (
            Retries(per=BY_TIME.per, renew_on_progress=True),
            {"completions": 9},
            "retries count no more from 2026-01-02T00:00:00Z on or once 40.0% of the completions are done",
        ),
        (
            BY_PROGRESS,
            {"completionMode": "Indexed", "completions": 1},
            "retries count no more once an attempt has told 5% more than all before it",
        ),
        (BY_PROGRESS, {"parallelism": 3}, "disruptions: 0 so far, 3 left"),
        (Retries(), {}, "disruptions: 0 so far, 1 left"),
    ],
)
def test_a_job_whose_retries_count_no_more_at_some_time_says_when(retries: Retries, spec: Json, expected: str) -> None:
    account = Account(
        ended=1, cost={"retry": 1}, retries=read([(1, "")]), retry_window_start="2026-01-01T00:00:00Z",
        reached=read([(350, "")]),
    )  # fmt: skip
    profile = NamedProfile("default", Profile(retries=retries, disruptions=Disruptions(limit=1)))
    assert budgets(account, profile=profile, **spec)[1] == expected


def test_retries_that_have_not_begun_to_count_say_for_how_long_they_will() -> None:
    profile = NamedProfile("default", Profile(retries=BY_TIME))
    assert budgets(profile=profile)[1] == "retries count no more 24h0m after the first one"


def test_disruptions_that_count_for_a_time_say_since_when() -> None:
    account = Account(ended=3, cost={"disruption": 3}, scopes=read([(1, "")]), window_start="2026-01-01T00:00:00Z")
    assert budgets(account)[1] == "disruptions: 3 so far, 1 since 2026-01-01T00:00:00Z, 0 left"
    found = budgets(account, completionMode="Indexed", completions=3, parallelism=3)
    assert found[1] == "disruptions: 3 so far; the limit for each index: 1 since 2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("hours", "text"),
    [
        (1, "4h30m of work left; on-demand nodes would be done with 3h20m to spare; it allows spot nodes, and"),
        (5, "4h30m of work left; on-demand nodes would be done with 40m late; it has allowed no spot node since"),
    ],
)
def test_a_deadline_says_what_is_left_of_time_and_work_and_where_pods_start(hours: int, text: str) -> None:
    said = {names.WORK: "5h", names.DEADLINE: "9h", names.CHECKPOINT: "30m"}
    metadata = {"namespace": "ml", "name": "train", "creationTimestamp": "2026-01-01T00:00:00Z", "annotations": said}
    root = {"metadata": metadata, "spec": job_spec(), "status": {}}
    now = (seconds("2026-01-01T00:00:00Z") or 0.0) + hours * 3600
    last = [Attempt(attempt=0, pod="train-1", cause="Disruption", cost="disruption")]
    account = Account(ended=1, cost={"disruption": 1}, last=last, work=read([(1800, "")]))
    standing = Standing(job=root, account=account, live=(), profile=NamedProfile("default", Profile()), now=now)
    (line,) = deadlines([standing])
    assert line.startswith(f"deadline: 2026-01-01T09:00:00Z, {text}")


@pytest.mark.parametrize(
    ("said", "line"),
    [
        (
            {names.DEADLINE: "2x"},
            f"deadline: has no effect yet: nothing says how long the work takes; say it in {names.WORK}, such as 12h",
        ),
        (
            {names.DEADLINE: "2x", names.WORK: "600s", names.WORK_SOURCE: "95 % of the last 3 Jobs named etl"},
            "work: 600s, as 95 % of the last 3 Jobs named etl",
        ),
    ],
    ids=["nothing says it", "earlier Jobs say it"],
)
def test_who_says_how_long_the_work_takes_is_shown_where_the_author_does_not(said: Json, line: str) -> None:
    metadata = {"namespace": "ml", "name": "etl-4", "creationTimestamp": "2026-01-01T00:00:00Z", "annotations": said}
    root = {"metadata": metadata, "spec": job_spec(), "status": {}}
    standing = Standing(job=root, account=Account(), live=(), profile=NamedProfile("default", Profile()), now=2e9)
    assert list(deadlines([standing]))[-1] == line


@pytest.mark.parametrize("said", [{names.DEADLINE: "2x"}, {names.DEADLINE: "2x", names.WORK: "1h"}])
def test_of_a_kind_without_deadlines_none_is_shown(said: Json) -> None:
    root = {"metadata": {"namespace": "ml", "name": "build", "annotations": said}, "spec": {}, "status": {}}
    profile = NamedProfile("default", Profile())
    standing = Standing(kind=TASK_RUN, job=root, account=Account(), live=(), profile=profile, now=2e9)
    assert list(deadlines([standing])) == []


def test_a_deadline_of_billions_of_rounds_is_shown_as_the_last_time_that_can_be_written() -> None:
    said = {names.WORK: "500000h", names.DEADLINE: "1x"}
    metadata = {"namespace": "ml", "name": "train", "creationTimestamp": "2026-01-01T00:00:00Z", "annotations": said}
    root = {"metadata": metadata, "spec": job_spec(completions=2**31 - 1), "status": {}}
    standing = Standing(job=root, account=Account(), live=(), profile=NamedProfile("default", Profile()), now=2e9)
    (line,) = deadlines([standing])
    assert line.startswith("deadline: 9999-12-31T23:59:59Z, ")


def test_a_job_that_counts_disruptions_as_failures_shows_no_disruption_limit() -> None:
    assert budgets(rules=[{**DISRUPTION, "action": "Count"}]) == ["retries: 0 of 6 spent"]


def test_pods_that_an_ended_job_has_deleted_are_not_told_as_unseen_failures() -> None:
    account = Account(ended=3, cost={"fatal": 1, "none": 2})
    assert budgets(account, {"failed": 3, **ENDED})[0] == "retries: 0 of 6 spent"
    assert budgets(account, {"failed": 5, **ENDED})[0] == "2 more pods failed unseen, by status.failed"


def test_failures_that_the_ledger_will_count_are_not_told_as_unseen() -> None:
    assert budgets(Account(), {"failed": 1})[0] == "retries: 0 of 6 spent"


def test_the_restarts_in_place_of_pods_that_an_ended_job_has_deleted_are_told() -> None:
    account = Account(in_place={"retry": 2, "fatal": 1}, causes={"ExitCode": {"main 1": 3}})
    assert budgets(account, ENDED)[0] == "retries: 3 spent in place, 0 of 6 spent by failed pods"


def test_what_a_changed_policy_cannot_change_in_a_stored_job_is_told() -> None:
    confirms = Profile(failure_policy=FailurePolicy(unknown_exit="Confirm", many_pods="Auto"))
    text = msgspec.json.encode(Record("default", applied=applied(Profile()))).decode()
    metadata = {"namespace": "ml", "name": "train", "annotations": {POLICY: text}}
    root: Json = {"metadata": metadata, "spec": job_spec(rules=[DISRUPTION]), "status": {}}
    fields = "failurePolicy.manyPods, failurePolicy.unknownExit"
    line = f"{fields}: changed since, but the rules of a stored Job cannot be; create it again"

    now, then = (list(budgets_of(JOB, root, [], Account(applied=applied(one)), [])) for one in (confirms, Profile()))

    assert (now[-1], line in then) == (line, False)
