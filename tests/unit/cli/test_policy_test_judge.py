"""How what admission does is compared with what a case expects."""

from typing import Any

import pytest

from tests.admission import policy
from tests.objects import job, job_spec, pod
from webhook.cli.next_pod import Ended
from webhook.cli.policy_tests import AUTO, Case, Expectation, Message, Prepared, differences
from webhook.kube import names
from webhook.objects.problem import Json
from webhook.policy.model import Delay, Duration, FailureRule, Match, Next, Placement, Policy, Profile

GKE = policy(default=Profile(placement=Placement(provider="gke")))
TOO_MANY = "spec.backoffLimit: 25 retries exceed the limit of 10 in profile 'default'; set 10 or less"


def judged(
    root: Json, expect: Expectation, attempt: int | None = None, under: Policy = GKE
) -> list[tuple[str, list[str]]]:
    case = Case(name="it", object=root, attempt=attempt, expect=expect)
    prepared = Prepared(case=case, line=1, root=root, whole=expect.object, profile="default")
    return [(one.where, one.lines) for one in differences(prepared, under)]


def greedy() -> Json:
    return job(job_spec(backoffLimit=25))


def modest(**fields: Any) -> Json:
    return job(job_spec(**{"backoffLimit": 3, **fields}))


@pytest.mark.parametrize(
    "message",
    [
        Message(),
        Message(path="spec.backoffLimit"),
        Message(what="25 retries"),
        Message(path="spec.backoffLimit", what="set 10 or less"),
    ],
)
def test_a_denial_that_is_expected_is_no_difference(message: Message) -> None:
    assert judged(greedy(), Expectation(denied=[message])) == []


def test_a_denial_that_is_not_expected_is_a_difference() -> None:
    assert judged(greedy(), Expectation()) == [("denied", [f"+ {TOO_MANY}"])]


def test_a_denial_that_is_expected_and_does_not_happen_is_a_difference() -> None:
    expected = Expectation(denied=[Message(path="spec.backoffLimit", what="too many"), Message()])
    assert judged(modest(), expected) == [("denied", ["- spec.backoffLimit: too many", "- any"])]


def test_another_denial_than_expected_shows_both() -> None:
    expected = Expectation(denied=[Message(path="spec.completions")])
    assert judged(greedy(), expected) == [("denied", ["- spec.completions", f"+ {TOO_MANY}"])]


def test_warnings_are_compared_only_if_they_are_named() -> None:
    root = job_spec(restart_policy="OnFailure", backoffLimit=3)
    path = "spec.template.spec.restartPolicy"
    assert judged(job(root), Expectation()) == []
    assert judged(job(root), Expectation(warnings=[Message(path=path)])) == []
    ((where, lines),) = judged(job(root), Expectation(warnings=[]))
    assert where == "warnings"
    assert lines[0].startswith(f"+ {path}: ")


def test_fields_of_the_admitted_object_are_compared() -> None:
    fields = {"spec.backoffLimit": 3, "spec.podFailurePolicy.rules[0].action": "Ignore", "spec.absent.field": None}
    assert judged(modest(), Expectation(fields=fields)) == []
    assert judged(modest(), Expectation(fields={"spec.backoffLimit": 4})) == [("spec.backoffLimit", ["- 4", "+ 3"])]
    assert judged(modest(), Expectation(fields={"spec.backoffLimit[0]": 4})) == [
        ("spec.backoffLimit[0]", ["- 4", "+ (absent)"])
    ]


def test_an_object_in_a_field_is_compared_line_by_line() -> None:
    condition = {"type": "DisruptionTarget", "status": "True"}
    wanted = {"action": "Count", "onPodConditions": [condition]}
    ((where, lines),) = judged(modest(), Expectation(fields={"spec.podFailurePolicy.rules[0]": wanted}))
    assert where == "spec.podFailurePolicy.rules[0]"
    assert [line for line in lines if line[0] != " "] == ["- action: Count", "+ action: Ignore"]


def test_the_whole_object_is_compared() -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}}
    assert judged(dict(service), Expectation(object=service)) == []
    ((where, lines),) = judged(modest(), Expectation(object=modest()))
    assert where == "object"
    assert all(line[0] in "+ " for line in lines)


@pytest.mark.parametrize(("attempt", "placement"), [(0, "Spot"), (2, "Spot"), (3, "OnDemand")])
def test_with_an_attempt_a_job_stands_for_the_pod_of_this_attempt(attempt: int, placement: str) -> None:
    fields = {"kind": "Pod", f"metadata.annotations[{names.MAX_RETRIES}]": "3"}
    assert judged(modest(), Expectation(placement=placement, fields=fields), attempt) == []  # type: ignore[arg-type]


def test_an_attempt_of_an_indexed_job_counts_against_the_retries_of_its_index() -> None:
    root = job_spec(backoffLimit=10, backoffLimitPerIndex=1, completionMode="Indexed", completions=4, parallelism=4)
    assert judged(job(root), Expectation(placement="OnDemand"), 1) == []


def test_a_job_that_is_denied_has_no_pod() -> None:
    assert judged(greedy(), Expectation(denied=[Message()], placement=None), 1) == []


DELAYED = Profile(
    placement=Placement(provider="gke"),
    on_failure=(FailureRule(match=Match(exit_codes=(143,)), next=Next(delay=Delay(initial=Duration(30)))),),
)


def test_after_ended_attempts_a_job_stands_for_the_pod_that_follows() -> None:
    after = [Ended(cause="Disruption"), Ended(exit_code=143)]
    state = '{"rule":0,"cause":"ExitCode","reason":"main 143","delays":1,"notBefore":"2026-01-01T00:00:30Z"}'
    fields = {"kind": "Pod", at_key(names.ATTEMPT): "1", at_key(names.AFTER_FAILURE): state}
    case = Case(name="it", object=modest(), after=after, expect=Expectation(fields=fields))
    prepared = Prepared(case=case, line=1, root=modest(), whole=None, profile="default")
    assert differences(prepared, policy(default=DELAYED)) == []


def test_after_ended_attempts_a_cron_job_stands_for_the_pod_of_its_job() -> None:
    placed = Expectation(placement="OnDemand")
    root: Json = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "nightly", "namespace": "etl"},
        "spec": {"schedule": "@daily", "jobTemplate": {"spec": job_spec(backoffLimit=1)}},
    }
    case = Case(name="it", object=root, after=[Ended(exit_code=143)], expect=placed)
    assert differences(Prepared(case=case, line=1, root=root, whole=None, profile="default"), GKE) == []
    assert root["kind"] == "Pod"


def test_an_end_after_which_no_pod_follows_is_a_warning_that_a_case_can_expect() -> None:
    case = Case(
        name="it",
        object=modest(),
        after=[Ended(exit_code=1)],
        expect=Expectation(warnings=[Message(what="only exit code 143"), Message(what="no pod follows")]),
    )
    prepared = Prepared(case=case, line=1, root=modest(), whole=None, profile="default")
    assert differences(prepared, policy(default=DELAYED)) == []


def at_key(key: str) -> str:
    return f"metadata.annotations[{key}]"


def test_a_pod_is_placed_by_its_attempt() -> None:
    root = pod(owner=None, annotations={names.MAX_RETRIES: "2"})
    assert judged(root, Expectation(placement="OnDemand"), 2) == []
    assert judged(pod(owner=None), Expectation(placement="OnDemand"), 0) == [
        ("placement", ["- OnDemand", "+ Spot"]),
    ]


def test_without_a_provider_the_difference_says_why_no_pod_is_placed() -> None:
    ((where, lines),) = judged(modest(), Expectation(placement="Spot"), 0, policy(default=Profile()))
    assert (where, lines[0], lines[-1]) == ("placement", "- Spot", f"  {AUTO}")


def test_an_author_interruptible_false_is_on_demand_from_the_first_attempt() -> None:
    root = job(job_spec(backoffLimit=3), annotations={names.INTERRUPTIBLE: "false"})
    assert judged(root, Expectation(placement="OnDemand"), 0) == []


def test_a_long_difference_is_cut_and_has_no_unprintable_character() -> None:
    root = modest()
    root["metadata"]["annotations"] = {f"key-{index}": "a\x1b" for index in range(500)}
    ((_, lines),) = judged(root, Expectation(object={"apiVersion": "v1"}))
    assert len(lines) == 201
    assert lines[-1].endswith("more lines")
    assert all(line.isprintable() for line in lines)
