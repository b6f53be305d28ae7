"""The refusals of `retry-policy suspend` and `resume`, and the API server's warnings in their output."""

import pytest

from tests.objects import stored_job
from webhook.cli import suspend
from webhook.objects.problem import Json
from webhook.systems.job.rerun import ADAPTER

ENDED = {"conditions": [{"type": "Complete", "status": "True"}]}


def job(*, suspended: bool = False, status: Json | None = None) -> Json:
    found = stored_job(status=status)
    found["spec"]["suspend"] = suspended
    return found


def test_a_running_job_can_be_suspended_and_a_suspended_one_resumed() -> None:
    assert suspend.refusal(ADAPTER, job(), suspend=True) is None
    assert suspend.refusal(ADAPTER, job(suspended=True), suspend=False) is None


@pytest.mark.parametrize(
    ("root", "to_suspend", "what"),
    [
        (job(suspended=True), True, "is suspended already; nothing was changed"),
        (job(), False, "is not suspended; nothing was changed"),
        (job(status=ENDED), True, "has ended; nothing was changed"),
    ],
)
def test_suspending_or_resuming_without_effect_is_refused(root: Json, to_suspend: bool, what: str) -> None:  # noqa: FBT001
    assert str(suspend.refusal(ADAPTER, root, suspend=to_suspend)).endswith(what)


@pytest.mark.parametrize(
    ("header", "text"),
    [
        ('299 - "spec.suspend: ends its pods"', "spec.suspend: ends its pods"),
        (r'299 - "says \"so\" in C:\\x"', r'says "so" in C:\x'),
        ("no header at all", "no header at all"),
    ],
)
def test_the_text_of_a_warning_header_is_printed(header: str, text: str) -> None:
    assert suspend.text_of(header) == text
