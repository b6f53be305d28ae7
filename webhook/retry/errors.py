"""Errors of a requested retry, each with a problem."""

from http import HTTPStatus
from typing import Final, Self

from webhook.kube.client import ApiError
from webhook.objects.problem import Problem

FINAL: Final = {*map(HTTPStatus, (400, 403, 404, 409, 413, 422))}  # statuses that the same request would get again
LONGEST_ERROR: Final = 600  # characters of the API server's answer in a problem


class ProblemError(Exception):
    """An error with a problem: what is wrong, and the remedy."""

    def __init__(self, what: str, remedy: str) -> None:
        self.problem = Problem((), what, remedy)
        super().__init__(str(self.problem))

    @classmethod
    def of(cls, problem: Problem) -> Self:
        """Return the error for a problem."""
        return cls(problem.what, problem.remedy)


class RefusedError(ProblemError):
    """The retry is not possible; nothing was changed."""


class StuckError(ProblemError):
    """The retry has begun and cannot continue now; the problem names the object that has the manifest."""


def brief(error: ApiError) -> str:
    """Return the API server's answer, cut so that the rest of a problem fits after it."""
    return str(error)[:LONGEST_ERROR]
