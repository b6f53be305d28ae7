"""The scheduling gate with which admission begins a delay."""

from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace

from tests.admission import OPTED_IN, mutate, policy
from tests.objects import pod, stored_job
from tests.unit.accounts.pods import failed
from webhook.kube import names
from webhook.objects.patch import Editor
from webhook.objects.problem import Json
from webhook.pods import on_failure
from webhook.policy.model import Delay, Duration, FailureRule, Match, Next, Profile
from webhook.rules.pods import delay

BUSY = FailureRule(match=Match(exit_codes=(75,)), next=Next(delay=Delay(initial=Duration(60))))
ENDED = failed(1, 75)  # at 00:01
DELAYED_UNTIL = datetime(2026, 1, 1, 0, 2, tzinfo=UTC).timestamp()
OURS = {"name": names.DELAY}


def gates(root: Json | None = None, now: float = DELAYED_UNTIL - 1, **facts: Any) -> list[Json]:
    """Return the gates of a pod after admission."""
    known = replace(OPTED_IN, owners_known=True, **{"owner": stored_job(), "now": now, "ended": (ENDED,), **facts})
    answer = mutate(root or pod(), known, policy(default=Profile(on_failure=(BUSY,))))
    found: list[Json] = answer.object["spec"].get("schedulingGates", [])
    return found


def test_a_pod_is_gated_until_the_delay_is_over() -> None:
    assert gates() == [OURS]
    assert gates(now=DELAYED_UNTIL) == []


def test_the_gate_of_another_stays() -> None:
    assert gates(pod({"schedulingGates": [{"name": "another"}]})) == [{"name": "another"}, OURS]


def test_a_pod_that_has_the_gate_gets_no_second_one() -> None:
    assert gates(pod({"schedulingGates": [OURS]})) == [OURS]


def test_without_a_delay_there_is_no_gate() -> None:
    assert gates(ended=()) == []
    assert gates(ended=(failed(1, 1),)) == []


def test_without_a_ledger_nobody_would_remove_the_gate() -> None:
    assert gates(ledger=False) == []


def test_the_author_may_turn_the_rules_off() -> None:
    assert gates(owner=stored_job(annotations={names.ON_FAILURE: "Off"})) == []


def test_the_pod_says_until_when_it_is_held_back() -> None:
    known = replace(OPTED_IN, owner=stored_job(), owners_known=True, ended=(ENDED,), now=DELAYED_UNTIL - 1)
    answer = mutate(pod(), known, policy(default=Profile(on_failure=(BUSY,))))
    said = answer.object["metadata"]["annotations"][names.AFTER_FAILURE]
    assert on_failure.read(said).not_before == "2026-01-01T00:02:00Z"


def test_an_end_of_the_delay_that_is_no_time_holds_nothing_back() -> None:
    root = pod()
    delay.edit(on_failure.FailureState(not_before="tomorrow"), 0, Editor(root))
    assert "schedulingGates" not in root["spec"]
