"""Which workloads a report of records has."""

from typing import Any

from msgspec import structs

from tests.unit.insight.report.facts import HOUR, MONDAY, attempt, ended
from webhook.history.reading import History
from webhook.insight.report.known import Window, recorded, wanted

DAY = Window(MONDAY.timestamp(), MONDAY.timestamp() + 24 * HOUR)


def history(*records: object) -> History:
    found = History()
    for record in records:
        found.add(record)  # type: ignore[arg-type]
    return found


def test_a_workload_has_its_attempts_and_the_end_that_its_record_says() -> None:
    owner: dict[str, Any] = {"owner": "CronJob/nightly"}
    records = [
        attempt(number=1, **owner),
        attempt("ExitCode", number=2, **owner),
        ended("Failed", reason="BackoffLimitExceeded", **owner),
    ]
    (known,) = recorded(history(*records), DAY)
    assert (known.namespace, known.profile, known.kind, known.name) == ("ml", "default", "Job", "train")
    assert (known.state, known.reason, known.owner) == ("Failed", "BackoffLimitExceeded", "CronJob/nightly")
    assert len(known.attempts) == 2


def test_a_workload_without_a_record_of_its_end_is_in_an_unknown_state() -> None:
    (known,) = recorded(history(attempt()), Window())
    assert (known.state, known.end) == ("Unknown", "")


def test_workloads_whose_uid_is_not_known_are_told_apart_by_their_names() -> None:
    gone = [attempt(number=number, workload=name, workload_uid="") for number, name in enumerate(("a", "b", "b"))]
    assert [(known.name, len(known.attempts)) for known in recorded(history(*gone), Window())] == [("a", 1), ("b", 2)]


def test_a_workload_that_ended_in_the_window_is_listed_without_attempts_and_another_is_not() -> None:
    later = ended(workload="later", end="2026-12-01T00:00:00Z")
    assert [known.name for known in recorded(history(ended(), later), DAY)] == ["train"]


def test_attempts_in_the_window_get_the_end_of_their_workload_outside_it() -> None:
    (known,) = recorded(history(attempt(), ended(end="2026-12-01T00:00:00Z")), DAY)
    assert known.state == "Complete"


def test_records_of_the_namespace_the_profile_and_the_window_are_wanted() -> None:
    is_wanted = wanted(DAY, "ml", "default")
    assert is_wanted(attempt(end=0))
    assert not is_wanted(attempt(end=24))
    assert not is_wanted(attempt(end=-0.001))
    assert not is_wanted(attempt(namespace="etl"))
    assert not is_wanted(attempt(profile="strict"))
    assert is_wanted(ended(end="2026-12-01T00:00:00Z"))
    assert not is_wanted(ended(namespace="etl"))
    assert not is_wanted(structs.replace(attempt(), end="no time"))
