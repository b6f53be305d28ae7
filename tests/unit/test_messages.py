"""Every message that users can see has a cause and a remedy."""

import ast
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Final

import pytest

from tools.generate import calls, messages
from tools.generate.calls import Message
from tools.generate.messages import PASSED_ON
from tools.generate.sources import Program, module_of, program

# Errors that the program raises and catches itself; the callers make the messages.
CAUGHT: Final = frozenset(
    (
        "ImportError",  # of a table that lacks a row: nothing starts
        "NotImplementedError",  # of a method that a base class leaves out
        "TypeError",  # of a bug: a type of the policy's model, a packaged policy with problems
        "webhook.admission.review.UnreadableError",  # carries a Problem
        "webhook.insight.dashboard.NothingReadableError",  # carries a NothingReadError
        "webhook.history.writer.FailedError",  # the log line `history not written` shows it
        "webhook.history.writer.RefusedRecordsError",  # likewise `history refused`
        "webhook.kube.client.ApiError",  # carries what the API server answered
        "webhook.kube.client.NoCredentialsError",
        "webhook.kube.client.TooLargeError",
        "webhook.policy.reader.TooManyProblemsError",
    )
)


def test_every_message_says_what_to_do() -> None:
    lacking = [f"{one.place}: {one.what}" for one in messages.listed() if not messages.remedy_of(one)]
    assert not lacking, f"end each with a remedy after '; ', or add its reason to INFORMING in {messages.__file__}"


def test_every_message_is_a_text_or_a_template_that_can_be_read() -> None:
    """A message that is built elsewhere is not read: write it at the call, or choose it there by a condition."""
    assert [
        f"{one.place}: {text}" for one in calls.messages() for text in (*one.what, *one.remedy) if is_unread(text)
    ] == []


def is_unread(text: str) -> bool:
    """Whether nothing of a text is known, and it is not a message with a line of its own."""
    return text.isupper() and not text.endswith(tuple(PASSED_ON))


def test_every_function_that_the_page_reads_by_name_exists() -> None:
    whole = program()
    named = {name for name in (*calls.TEXTS, *calls.RETURNED) if name.startswith(("webhook.", "certs."))}
    assert named - {*whole.classes, *whole.functions} == set()


def test_every_error_that_is_raised_is_a_message_or_is_caught() -> None:
    whole = program()
    seen = {*dict(calls.ways_of_classes(whole)), *dict(calls.ways_of_texts()), *whole.functions}
    assert sorted(set(raised(whole)) - seen - CAUGHT) == []


def raised(whole: Program) -> Iterator[str]:
    """Yield what modules raise: a class, or a function that returns the error."""
    for function in whole.functions.values():
        for node in (node for statement in function.body for node in ast.walk(statement)):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                yield whole.target(function, node.exc.func).removesuffix(".of")


def test_a_log_line_without_a_remedy_names_the_field_that_says_why() -> None:
    lines = {one.what: one.remedy for one in messages.listed() if one.form == "log"}
    assert lines["policy refused",] == ("see the field problems",)
    assert all(remedy for remedies in lines.values() for remedy in remedies)


SOURCE: Final = """
MOST = 1_000


class Problem:
    path: tuple
    what: str
    remedy: str


class Refused(Exception):
    def __init__(self, what, remedy):
        super().__init__(str(Problem((), what, remedy)))


def too_many(number, limit, name):
    amount = "unlimited" if number is None else f"{number} retries"
    what = f"{amount} exceed the limit of {limit}"
    if name:
        what += f" in profile {name!r}"
    return Problem(("spec",), what, "set fewer")


def described(value):
    return "is missing" if value is None else f"is {value[:40]!r}"


def missing(value):
    return Problem(("spec",), described(value), f"must be at most {MOST:,}")


def refuse(place, what, remedy):
    return Problem(place, f"{what} (line {place.line})", remedy)


def tag(place):
    return refuse(place, "has a tag", "leave it out")


def gone(name):
    raise Refused(f"{name} is gone", "create it again")


def unread(find):
    return Problem((), find(), "mend it")
"""


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> dict[str, Message]:
    """Return the messages of a small module, by the functions that make them."""
    module = ModuleType("small")
    exec(SOURCE, module.__dict__)  # noqa: S102 - our own
    monkeypatch.setitem(sys.modules, "small", module)
    return {
        one.function: one for one in calls.messages_of(Program([module_of("small", "small.py", ast.parse(SOURCE))]))
    }


def test_a_text_with_conditional_parts_is_read_with_all_alternatives(found: dict[str, Message]) -> None:
    assert found["small.too_many"].what == (
        "unlimited exceed the limit of LIMIT in profile 'NAME'",
        "NUMBER retries exceed the limit of LIMIT in profile 'NAME'",
        "unlimited exceed the limit of LIMIT",
        "NUMBER retries exceed the limit of LIMIT",
    )
    assert found["small.too_many"].remedy == ("set fewer",)


def test_a_text_of_another_function_and_a_constant_are_read(found: dict[str, Message]) -> None:
    assert found["small.missing"].what == ("is missing", "is 'VALUE'")
    assert found["small.missing"].remedy == ("must be at most 1,000",)


def test_the_messages_of_a_function_that_passes_texts_on_are_those_of_its_callers(found: dict[str, Message]) -> None:
    assert "small.refuse" not in found
    assert (found["small.tag"].what, found["small.tag"].remedy) == (("has a tag (line LINE)",), ("leave it out",))


def test_an_error_with_a_cause_and_a_remedy_is_a_message(found: dict[str, Message]) -> None:
    assert (found["small.gone"].what, found["small.gone"].remedy) == (("NAME is gone",), ("create it again",))


def test_a_text_that_is_not_written_in_the_code_is_unread(found: dict[str, Message]) -> None:
    (text,) = found["small.unread"].what
    assert is_unread(text)
