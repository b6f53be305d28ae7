"""What a TrainJob says of its training, whatever its status holds."""

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.objects.problem import Json
from webhook.objects.shape import type_of
from webhook.objects.times import seconds
from webhook.systems.trainer import progress
from webhook.systems.trainer.progress import TrainerStatus, read

TIME = "2026-01-01T00:00:30Z"
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just(TIME) | st.integers(0, 100),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


def train_job(**told: Any) -> Json:
    return {"metadata": {"namespace": "ml", "name": "set", "uid": "train-uid"}, "status": {"trainerStatus": told}}


def said(**told: Any) -> tuple[int | None, float]:
    found = read(train_job(**told))
    return found.percent, found.time


def test_a_train_job_says_how_far_it_is_and_when_it_said_so() -> None:
    told = {"progressPercentage": 42, "estimatedRemainingSeconds": 60, "metrics": [{"name": "loss", "value": "0.1"}]}
    assert said(**told, lastUpdatedTime=TIME) == (42, seconds(TIME))
    assert said(lastUpdatedTime="2026-01-01T01:00:30.5+01:00") == (None, (seconds(TIME) or 0) + 0.5)


@pytest.mark.parametrize("percent", [-1, 101, 10**30, 42.0, math.nan, math.inf, "42", True, [42], {"a": 1}])
def test_a_percentage_that_the_trainer_would_not_write_is_none(percent: Any) -> None:
    assert said(progressPercentage=percent, lastUpdatedTime=TIME) == (None, seconds(TIME))


@pytest.mark.parametrize("time", ["", "soon", "2026-01-01", "9999-12-31T23:59:59Z", "x" * 10**6, 10**30, math.nan, {}])
def test_what_was_told_at_no_time_was_not_told(time: Any) -> None:
    assert said(progressPercentage=42, lastUpdatedTime=time) == (42, 0)


@given(VALUES, VALUES, VALUES)
def test_any_status_is_read(status: Any, told: Any, value: Any) -> None:
    for root in (
        {"status": status},
        {"status": {"trainerStatus": told}},
        train_job(progressPercentage=value, lastUpdatedTime=told),
    ):
        found = read({**train_job(), **root})
        assert found.percent is None or 0 <= found.percent <= 100
        assert 0 <= found.time < math.inf


def test_a_huge_status_leaves_little_in_memory() -> None:
    told = {"lastUpdatedTime": TIME, "metrics": [{"name": "x" * 64, "value": "y" * 64}] * 5000}
    text = msgspec.json.encode(train_job(progressPercentage=7, **told))
    found = read(msgspec.json.decode(text, type=type_of(progress.READ)))
    assert found == TrainerStatus(namespace="ml", name="set", uid="train-uid", percent=7, time=seconds(TIME) or 0)


def test_a_pod_may_tell_its_progress_if_the_trainer_has_given_it_the_address() -> None:
    address = [{"name": "OTHER", "value": "x"}, {"name": progress.SERVER, "value": "https://trainer"}]
    assert progress.may_tell({"spec": {"containers": [{"name": "sidecar"}, {"name": "node", "env": address}]}})
    assert not progress.may_tell({"spec": {"containers": [{"name": "node", "env": address[:1]}]}})
