"""The messages of errors of a requested retry."""

import pytest

from webhook.kube.client import ApiError
from webhook.objects.problem import Problem
from webhook.retry.reading import FINAL, LONGEST_ERROR, RefusedError, StuckError, brief


def test_the_error_for_a_problem_has_the_given_type_and_no_path() -> None:
    error = RefusedError.of(Problem(("metadata", "name"), "is wrong", "mend it"))
    assert isinstance(error, RefusedError)
    assert error.problem == Problem((), "is wrong", "mend it")


@pytest.mark.parametrize(
    ("status", "is_final"),
    [(400, True), (403, True), (404, True), (409, True), (413, True), (422, True), (401, False), (429, False)]
    + [(status, False) for status in (408, 500, 502, 503, 504)],
)
def test_only_errors_about_the_object_or_the_users_rights_are_final(
    status: int,
    is_final: bool,  # noqa: FBT001
) -> None:
    assert (status in FINAL) is is_final


def test_a_long_error_of_the_api_server_leaves_room_for_the_remedy() -> None:
    error = ApiError(403, "denied: " + "x" * 5000)
    assert len(brief(error)) == LONGEST_ERROR
    stuck = StuckError(f"Job {'n' * 63}/{'j' * 63} is rejected by the API server: {brief(error)}", "ask again to go on")
    assert str(stuck).endswith("; ask again to go on")
    assert "…" not in str(stuck)
