"""Why a requested retry does not go on: errors that carry a problem."""

from http import HTTPStatus
from typing import Final, Self

from webhook.kube.client import ApiError
from webhook.objects.problem import Problem

FINAL: Final = {*map(HTTPStatus, (400, 403, 404, 409, 413, 422))}  # asked again it would be the same
LONGEST_ERROR: Final = 600  # characters of an answer of the API server in a problem


class ProblemError(Exception):
    """An error with a problem: what is wrong, and what would help."""

    def __init__(self, what: str, remedy: str) -> None:
        self.problem = Problem((), what, remedy)
        super().__init__(str(self.problem))

    @classmethod
    def of(cls, problem: Problem) -> Self:
        """Return the error for a problem."""
        return cls(problem.what, problem.remedy)


class RefusedError(ProblemError):
    """A retry that is not possible; nothing has changed."""


class StuckError(ProblemError):
    """A retry that has begun and cannot continue now; the problem says where the manifest is."""


def brief(error: ApiError) -> str:
    """Return what the API server answered, short enough for the rest of a problem to be printed after it."""
    return str(error)[:LONGEST_ERROR]
