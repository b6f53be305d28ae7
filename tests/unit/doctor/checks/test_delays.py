"""What the doctor finds about pods that are held back by a delay."""

from datetime import timedelta
from typing import Any

import pytest

from tests.unit.doctor.healthy import NOW, healthy, told, wrong
from webhook.doctor.checks.leader import delays, is_delayed
from webhook.kube import names
from webhook.objects.problem import Json
from webhook.pods import on_failure
from webhook.pods.on_failure import FailureState

OURS = {"name": names.DELAY}
OTHERS = {"name": "another"}


def at(seconds: float) -> str:
    return (NOW + timedelta(seconds=seconds)).isoformat()


def delayed(until: float | None, *gates: Json, created: float = -3600) -> Json:
    """Return a pod that is held back until some seconds from now; None if it does not say until when."""
    said = (
        {} if until is None else {names.AFTER_FAILURE: on_failure.written(FailureState(rule=0, not_before=at(until)))}
    )
    metadata: dict[str, Any] = {"namespace": "ml", "name": "train-1", "creationTimestamp": at(created)}
    return {"metadata": {**metadata, "annotations": said}, "spec": {"schedulingGates": [*gates, OURS]}}


@pytest.mark.parametrize("pods", [None, [], [delayed(300)], [delayed(-30)], [delayed(None, created=-30)]], ids=repr)
def test_a_delay_that_is_not_over_is_right(pods: list[Json] | None) -> None:
    assert wrong(delays, healthy(delayed=pods, now=NOW)) == []


def test_a_delay_that_nobody_has_ended_is_a_problem_with_the_command_that_ends_it() -> None:
    status, what, fix = told(delays, healthy(delayed=[delayed(-300, OTHERS)], now=NOW))
    assert status == "problem"
    assert "is held back by a delay that ended 300 s ago: no leader removes its gate" in what
    assert fix == (
        'kubectl -n ml patch pod train-1 --type=json -p \'[{"op":"remove","path":"/spec/schedulingGates/1"}]\''
    )


def test_a_gate_without_a_time_is_over_since_the_pod_was_created() -> None:
    assert "that ended 3600 s ago" in told(delays, healthy(delayed=[delayed(None)], now=NOW))[1]


def test_without_a_controller_each_pod_that_is_held_back_is_named_before_its_delay_is_over() -> None:
    status, what, fix = told(delays, healthy(delayed=[delayed(300, OTHERS)], now=NOW, deployments=[]))
    assert (status, what) == ("problem", "Pod ml/train-1: is held back by a delay: no controller ends it")
    assert "/spec/schedulingGates/" in fix


def test_only_pods_with_the_gate_of_a_delay_are_held_back_by_one() -> None:
    assert is_delayed(delayed(0, OTHERS))
    assert not is_delayed({"spec": {"schedulingGates": [OTHERS]}})
    assert not is_delayed({"spec": {}})
