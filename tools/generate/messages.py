"""The page of all messages that users can see: cause, remedy, and where each is made."""

from dataclasses import dataclass
from fnmatch import fnmatch
from typing import Final

from tools.generate.calls import Message, messages, unique
from tools.generate.texts import Texts

PAGE: Final = "docs/reference/messages.md"
# Reasons of Events and conditions that tell what has happened, and ask for nothing.
INFORMING: Final = frozenset(
    (
        *("AttemptEnded", "DisruptionLimitExceeded", "FreeRestartLimitExceeded", "NeverStarted", "PodFailurePolicy"),
        *("EvictionLimitExceeded", "RetryStarted"),
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


@dataclass(frozen=True)
class Section:
    """A part of the page: the messages that are made in these folders or files, and for whom they are."""

    title: str
    readers: str
    made_in: tuple[str, ...]


EVENTS_AND_CONDITIONS: Final = Section(
    "Events and conditions",
    "For admins and for authors of workloads: `kubectl describe` shows them, reason and message.",
    (),
)
LOG_LINES: Final = Section(
    "Log lines",
    "For admins: the field `event` of the warnings and errors in the server's log. Other fields name the object.",
    (),
)
SECTIONS: Final = (
    EVENTS_AND_CONDITIONS,
    Section(
        "The policy and Namespaces",
        "For admins: denials of `kubectl`, the Event PolicyRefused, and `retry-policy check --policy`.",
        (
            "webhook/admission/configuration.py",
            "webhook/tracking/policy_source.py",
            "webhook/policy/parse.py",
            "webhook/policy/reader.py",
            "webhook/policy/relations.py",
            "webhook/rules/opt_in.py",
        ),
    ),
    Section(
        "The webhook and the controller",
        "For admins: `kubectl` shows them after `failed calling webhook`, `/readyz` does, and the log at the start.",
        (
            "webhook/admission/review.py",
            "webhook/controller/app.py",
            "webhook/controller/certificates.py",
            "webhook/program/",
            "webhook/serving/",
            "webhook/tracking/",
        ),
    ),
    Section(
        "Denials and warnings",
        "For authors of workloads: `kubectl` shows them, after the path of a field. So does `retry-policy check`.",
        (
            "webhook/admission/",
            "webhook/capacity/",
            "webhook/objects/shape.py",
            "webhook/policy/",
            "webhook/rules/",
            "webhook/systems/*/pods.py",
            "webhook/systems/pod",
            "webhook/systems/*rules",
            "webhook/systems/*spec.py",
        ),
    ),
    Section(
        "Requested retries",
        "For those who rerun work: by `retry-policy retry`, or as denials, warnings and Events after an annotation.",
        ("webhook/controller/retries.py", "webhook/retry/", "webhook/systems/*rerun.py", "webhook/systems/refusals.py"),
    ),
    Section(
        "Files",
        "For those who run `retry-policy check` or `render`, and of a policy.",
        ("webhook/objects/patch.py", "webhook/objects/strict_"),
    ),
    Section(
        "The command line",
        "For those who run `retry-policy`, on stderr; wrong options apart.",
        (
            "webhook/cli/",
            "webhook/insight/",
            "webhook/explain/",
            "webhook/export/",
            "webhook/history/",
            "webhook/accounts/stored.py",
            "webhook/objects/left_out.py",
        ),
    ),
    Section(
        "Certificates",
        "For admins: Events, log lines, and at the start of the server.",
        ("certs/",),
    ),
    LOG_LINES,
)


def listed() -> list[Message]:
    """Return the messages of the page: without those that only pass others on, or say nothing."""
    return [one for one in messages() if one.what not in SAY_NOTHING and not is_passed_on(one)]


def is_passed_on(one: Message) -> bool:
    """Return True if nothing of a message is its own."""
    return PASSED_ON.issuperset((*one.what, *one.remedy))


def section_of(one: Message) -> Section | None:
    """Return where a message stands; None if no section has it."""
    by_form = {"event": EVENTS_AND_CONDITIONS, "log": LOG_LINES}
    by_file = next((section for section in SECTIONS if is_made_in(one.file, section)), None)
    return by_form.get(one.form, by_file)


def is_made_in(file: str, section: Section) -> bool:
    """Return True if a file is one of those that a section names by the beginning of their paths."""
    return any(fnmatch(file, f"{pattern}*") for pattern in section.made_in)


def table() -> str:
    """Show all messages, by section."""
    return "\n".join(part(section) for section in SECTIONS)


def part(section: Section) -> str:
    """Show the messages of a section."""
    head = f"## {section.title}\n\n{section.readers}\n\n| Cause | Remedy | Made in |\n|---|---|---|\n"
    found = [one for one in listed() if section_of(one) is section]
    return head + "".join(unique(map(line, found)))


def line(one: Message) -> str:
    """Show a message."""
    return f"| {cell(one.what)} | {remedy_of(one)} | {one.file.removeprefix('webhook/')} |\n"


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
