"""Of records, the last one of each uid counts; what cannot be placed in time is left out, and counted."""

import pytest
from msgspec.structs import replace

from tests.unit.insight.simulate.stories import attempt, crashed, disrupted, ended
from webhook.insight.simulate import past
from webhook.insight.simulate.past import End
from webhook.objects.times import seconds as time_of


def test_the_last_record_of_a_uid_counts() -> None:
    found = past.read([attempt("a", 1, 10, 60), attempt("a", 1, 10, 90), ended("a", 100), ended("a", 200)])

    (story,) = found.stories
    assert [one.seconds for one in story.attempts] == [90]
    assert story.end - story.created == 200


def test_a_workload_without_an_end_is_unfinished_but_its_attempts_are_known() -> None:
    found = past.read([attempt("a", 1, 10, 60)])

    assert (found.stories, found.unfinished, len(found.attempts)) == ([], 1, 1)


def test_a_record_without_a_usable_time_is_unread() -> None:
    found = past.read([replace(attempt("a", 1, 10, 60), end="yesterday"), replace(ended("a", 60), created="")])

    assert found.unread == 2


@pytest.mark.parametrize("end", ["1986-11-16T00:00:00Z", "2199-12-31T23:59:59Z", "9999-12-31T23:59:59Z"])
def test_a_record_of_an_end_that_cannot_be_is_unread(end: str) -> None:
    forged = [replace(attempt("a", 1, 10, 60), end=end, start=end, seconds=0.0), replace(ended("a", 60), end=end)]
    found = past.read(forged, now=time_of(ended("a", 60).end) or 0.0)

    assert (found.unread, found.attempts, found.stories) == (2, [], [])


def test_an_exit_code_and_its_container_are_in_the_reason() -> None:
    found = past.read([crashed("a", 1, 10, 60, 42, "retry"), ended("a", 100)])

    assert found.attempts[0].end_of == End("ExitCode", "", 42, "main")


def test_if_the_capacity_of_a_node_is_unknown_its_placement_counts() -> None:
    found = past.read([disrupted("a", 1, 10, 60, capacity="")])

    assert (found.attempts[0].capacity, found.guessed_capacity) == ("Spot", 1)


def test_no_more_attempts_are_kept_than_are_simulated_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(past, "MOST_ATTEMPTS", 2)

    found = past.read([attempt("a", number, 10, 60) for number in range(5)])

    assert (len(found.attempts), found.cut) == (2, True)
