"""The record of the end of a workload says what its spec allowed."""

import pytest

from webhook.history.spec import fields_of


@pytest.mark.parametrize(("stored", "recorded"), [(3, 3), (-1, 0), (2**40, 2**31 - 1), (None, 0)])
def test_the_restarts_of_a_job_set_are_within_the_bounds_of_a_record(stored: int | None, recorded: int) -> None:
    assert fields_of({"failurePolicy": {"maxRestarts": stored}}, of_set=True) == {"retries": recorded}


def test_a_job_says_its_retries_completions_and_parallelism() -> None:
    spec = {"backoffLimit": 4, "completions": 6, "parallelism": 2, "completionMode": "Indexed"}
    found = fields_of(spec, of_set=False)
    assert (found["retries"], found["completions"], found["parallelism"], found["indexed"]) == (4, 6, 2, True)
