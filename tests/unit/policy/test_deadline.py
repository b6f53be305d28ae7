"""What authors may say about deadlines."""

import pytest

from webhook.kube import names
from webhook.objects.times import seconds
from webhook.policy import deadline
from webhook.policy.model import Deadlines

POLICY = Deadlines()  # limit 10, a start of ten minutes
HOUR = 3600
CREATED = 1_800_000_000.0


def said(**values: str) -> dict[str, str]:
    return {names.PREFIX + key: value for key, value in values.items()}


@pytest.mark.parametrize(
    ("text", "due"),
    [
        ("2x", 2 * (12 * HOUR + 600) + 90),
        ("1.25x", 1.25 * (12 * HOUR + 600) + 90),
        ("18h", 18 * HOUR),
        ("2027-01-16T08:00:00Z", (seconds("2027-01-16T08:00:00Z") or 0) - CREATED),
    ],
)
def test_a_deadline_is_a_multiple_of_the_work_or_a_duration_or_a_time(text: str, due: float) -> None:
    found = deadline.read(said(work="12h", deadline=text, checkpoint="30m"), POLICY)
    assert found is not None
    assert (found.work, found.loss, found.due(CREATED, 1) - CREATED) == (12 * HOUR, 1800, due)


def test_without_a_checkpoint_a_disruption_costs_all_work() -> None:
    found = deadline.read(said(work="12h", deadline="2x"), POLICY)
    assert found is not None
    assert found.loss is None


def test_the_policy_may_have_a_deadline_for_those_who_name_none() -> None:
    assert deadline.read(said(work="1h"), POLICY) is None
    found = deadline.read(said(work="1h"), Deadlines(factor=1.5))
    assert found is not None
    assert found.due(CREATED, 3) - CREATED == 1.5 * 3 * 4200 + 90


def test_a_time_beyond_the_limit_is_the_limit() -> None:
    found = deadline.read(said(work="1h", deadline="2100-01-01T00:00:00Z"), POLICY)
    assert found is not None
    assert found.due(CREATED, 1) == CREATED + 10 * 4200 + 90


@pytest.mark.parametrize(
    ("values", "wrong"),
    [
        ({"work": "long", "deadline": "2x"}, ["work is 'long'"]),
        ({"work": "1h", "deadline": "0.5x"}, ["deadline is '0.5x'"]),
        ({"work": "1h", "deadline": "tomorrow"}, ["deadline is 'tomorrow'"]),
        ({"work": "1h", "deadline": "11x"}, ["deadline 11x is more than 10x"]),
        ({"work": "12h", "deadline": "11h"}, ["deadline 11h is less than the work itself"]),
        ({"deadline": "2x"}, []),  # earlier Jobs say how long the work takes
        ({"deadline": "2x", "checkpoint": "1h"}, []),
        ({"work": "1h", "checkpoint": "never", "deadline": "2x"}, ["checkpoint is 'never'"]),
        ({"checkpoint": "1h"}, ["checkpoint has no effect without"]),
        ({"work": "0h"}, ["work is '0h'"]),
        ({"work": "1h", "deadline": "9" * 10_000}, [f"deadline is '{'9' * 40}'"]),
        ({"work": "12h", "deadline": "2x", "checkpoint": "30m"}, []),
    ],
)
def test_what_is_wrong_is_said_with_the_key(values: dict[str, str], wrong: list[str]) -> None:
    found = [
        f"{str(one.path[-1]).removeprefix(names.PREFIX)} {one.what}"
        for one in deadline.problems(said(**values), POLICY, ())
    ]
    assert [text for text, start in zip(found, wrong, strict=True) if not text.startswith(start)] == []


def test_what_is_malformed_counts_as_absent() -> None:
    assert deadline.read(said(work="long", deadline="2x"), POLICY) is None
    assert deadline.read(said(work="1h", deadline="tomorrow"), POLICY) is None
