"""What the program kubectl_complete-retry_policy prints for kubectl."""

import subprocess
import sys

import pytest

from tests.awaiting import LONGEST
from webhook.cli.kubectl import completion, suggestions

EVERY_ANSWER_IS_LATE = """
import asyncio, sys, time
from webhook.cli.kubectl import completion, suggestions
suggestions.ALL_SECONDS = 0.2
async def connect(*_):
    await asyncio.to_thread(time.sleep, 60)  # as a name server that does not answer: no cancellation ends it
suggestions.Api.connect = connect
sys.argv = ["kubectl_complete-retry_policy", "explain", "-n", ""]
completion.main()
"""


def printed(*arguments: str) -> list[str]:
    return list(completion.lines(list(arguments)))


def test_commands_are_offered_with_what_they_do() -> None:
    assert printed("re") == [
        "report\tPrint what attempts used, lost and saved.",
        "retry\tRerun failed work.",
        "resume\tResume a suspended Job, CronJob or JobSet.",
        ":4",
    ]
    assert printed()[-1] == ":4"


def test_options_are_offered() -> None:
    found = printed("explain", "--con")
    assert [line.partition("\t")[0] for line in found] == ["--context", ":4"]


def test_for_a_kubeconfig_the_shell_offers_files() -> None:
    assert printed("explain", "--kubeconfig", "") == [":0"]


def test_workloads_are_offered_one_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suggestions, "workloads", lambda *_: ["job/train", "job/test"])
    assert printed("explain", "-n", "ml", "job/t") == ["job/train", "job/test", ":4"]


def test_after_a_kind_the_shell_adds_no_space(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suggestions, "workloads", lambda *_: ["job/"])
    assert printed("explain", "jo") == ["job/", ":6"]


def test_what_no_cancellation_ends_is_ended_with_the_process_in_silence() -> None:
    done = subprocess.run(
        [sys.executable, "-c", EVERY_ANSWER_IS_LATE], capture_output=True, check=False, timeout=LONGEST
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
