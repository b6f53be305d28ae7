"""The last words of an ended pod."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.costs import assert_affordable
from tests.unit.ledger.pods import disrupted, failed, job
from webhook.ledger.model import last_words, pods
from webhook.ledger.model.outcomes import outcome_of
from webhook.ledger.model.pods import Exit, Pod


def said_by(pod: Pod) -> str:
    return last_words.of(outcome_of(pod, job()))


def saying(*exits: tuple[str, int, str]) -> Pod:
    """Return a failed pod with containers that ended with a code and a message, in this order of time."""
    ends = [
        Exit(name, code, "Error", f"2026-01-01T00:00:{at:02}Z", said) for at, (name, code, said) in enumerate(exits)
    ]
    return failed(exits=tuple(ends))


def test_the_last_words_are_those_of_the_container_by_which_the_pod_ended() -> None:
    assert said_by(saying(("main", 1, "loss is NaN"), ("proxy", 137, "connection closed"))) == "loss is NaN"
    assert said_by(saying(("proxy", 137, "connection closed"), ("main", 1, "loss is NaN"))) == "loss is NaN"


def test_if_that_container_left_none_those_of_another_one_count() -> None:
    assert said_by(saying(("main", 1, ""), ("proxy", 137, "connection closed"))) == "connection closed"
    assert said_by(failed()) == ""


def test_a_disrupted_pod_has_last_words_too() -> None:
    assert said_by(disrupted(exits=(Exit("main", 143, "Error", "", "saved step 1200"),))) == "saved step 1200"


def test_several_lines_become_one_without_what_a_terminal_would_obey() -> None:
    assert last_words.in_one_line("Traceback:\n  File\tx\r\n\x1b[31mValueError\x07 \u202eb\n") == (
        "Traceback: File x [31mValueError b"
    )


def test_of_a_long_message_the_end_is_kept() -> None:
    found = last_words.in_one_line("x" * 1000 + "CUDA out of memory")
    assert found.startswith("…xxx")
    assert found.endswith("xCUDA out of memory")
    assert len(found.encode()) == last_words.LONGEST


@given(st.text(st.characters(), max_size=400))
@pytest.mark.filterwarnings("error")
def test_no_message_makes_them_longer_or_unprintable(message: str) -> None:
    found = last_words.in_one_line(message)
    assert len(found.encode()) <= last_words.LONGEST
    assert found.isprintable()


def test_the_longest_message_costs_little() -> None:
    assert_affordable(lambda: last_words.in_one_line("\u202e" * pods.LONGEST_MESSAGE), seconds=0.002, mebibytes=1)
