"""The messages that users can see, each with a cause and a remedy; and the page of those that are short."""

from typing import Final

from tools.generate.calls import Message, messages, unique
from tools.generate.texts import Texts

PAGE: Final = "docs/reference/messages.md"
# Reasons of Events and conditions that tell what has happened, and ask for nothing.
INFORMING: Final = frozenset(
    (
        *("AttemptEnded", "DisruptionLimitExceeded", "FreeRestartLimitExceeded", "NeverStarted", "PodFailurePolicy"),
        *("BackoffLimitRaised", "DISRUPTION", "EvictionLimitExceeded", "JobWideFailure", "RetryStarted"),
    )
)
SAY_NOTHING: Final = (("ok",), ("nothing was done",), ("nothing was changed",))
# Placeholders that stand for a whole message, or for a part of one, that is made elsewhere and has its own line.
PASSED_ON: Final = frozenset(
    (
        *("ERROR", "FILE", "FOUND", "LINE", "MESSAGE", "ORIGIN", "PROBLEM", "PROBLEMS", "REASONS", "REFUSAL", "REMEDY"),
        *("TEXT", "UNUSABLE", "WARNING", "WHAT", "WHY"),
    )
)


# What the page shows: for each form of a message a heading, and who reads it where. All others, such as denials and the
# errors of commands, say themselves what would be right.
SECTIONS: Final = {
    "event": (
        "Events and conditions",
        "For admins and for authors of workloads: `kubectl describe` shows them, reason and message.",
    ),
    "log": (
        "Log lines",
        "For admins: the field `event` of warnings and errors in the log. Other fields name the object.",
    ),
}


def listed() -> list[Message]:
    """Return the messages without those that only pass others on, or say nothing."""
    return [one for one in messages() if one.what not in SAY_NOTHING and not is_passed_on(one)]


def is_passed_on(one: Message) -> bool:
    """Return True if nothing of a message is its own."""
    return PASSED_ON.issuperset((*one.what, *one.remedy))


def table() -> str:
    """Show the messages of each section."""
    return "\n".join(map(part, SECTIONS))


def part(form: str) -> str:
    """Show the messages of a form."""
    title, readers = SECTIONS[form]
    head = f"## {title}\n\n{readers}\n\n| Message | What to do |\n|---|---|\n"
    return head + "".join(unique(line(one) for one in listed() if one.form == form))


def line(one: Message) -> str:
    """Show a message."""
    return f"| {cell(one.what)} | {remedy_of(one)} |\n"


def remedy_of(one: Message) -> str:
    """Say what to do; empty where neither the message nor one that it contains says that."""
    if one.remedy:
        return cell(one.remedy)
    if all(text.removesuffix(" (NAME)").endswith(tuple(PASSED_ON)) for text in one.what):
        return "in the message that it contains"
    return "none: it tells what has happened" if all(text.partition(": ")[0] in INFORMING for text in one.what) else ""


def cell(texts: Texts) -> str:
    """Show alternatives under each other."""
    return "<br>".join(f"`{text.replace('|', chr(92) + '|')}`" if text else "`…`" for text in texts)
