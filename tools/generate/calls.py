"""Reads every message that users can see from the calls that make them.

A call makes a message if it calls a class of ours with a `what` and a `remedy`, a function that passes its own
parameters on to one, or what TEXTS lists, which takes one text: the cause and, after the first semicolon, the remedy.
"""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from operator import attrgetter
from typing import Final, NamedTuple, cast

from tools.generate.sources import Definition, Function, Program, program
from tools.generate.texts import GIVEN, Known, Reading, Texts, placeholder, shown

HTTP_ERRORS: Final = (
    "HTTPMethodNotAllowed",
    "HTTPNotFound",
    "HTTPRequestEntityTooLarge",
    "HTTPRequestTimeout",
    "HTTPTooManyRequests",
    "HTTPUnsupportedMediaType",
)
# Errors of ours whose text users see.
ERRORS: Final = (
    "certs.store.UnusableError",
    "webhook.admission.review.BadReviewError",
    "webhook.cli.explain.UnexplainableError",
    "webhook.insight.dashboard.PortTakenError",
    "webhook.history.reading.NoHistoryError",
    "webhook.tracking.cluster.UnavailableError",
    "webhook.objects.left_out.UnfitError",
    "webhook.insight.report.load.NothingReadError",
    "webhook.insight.report.opencost.PricesUnreadableError",
    "webhook.program.start.CannotStartError",
    "webhook.serving.listen.CannotListenError",
    "webhook.serving.places.CrowdedError",
)
CLICK: Final = ("click.BadParameter", "click.ClickException", "click.UsageError")
NOTICE: Final = ["kind", "namespace", "name", "reason", "message", "type", "api_version", "uid"]
# What takes one text: its parameters, and the text that is made of them.
TEXTS: Final[dict[str, tuple[list[str], str]]] = {
    **{error: (["text"], "{text}") for error in (*ERRORS, *CLICK)},
    **{f"aiohttp.web.{error}": ([], "{text}") for error in HTTP_ERRORS},
    "ValueError": (["text"], "{text}"),  # of the command line
    "click.echo": (["text"], "{text}"),  # to stderr
    "reasons.append": (["text"], "{text}"),  # why a replica is not ready
    "webhook.kube.events.Notice": (NOTICE, "{reason}: {message}"),
    "self.ends.fail": (["row", "root", "reason", "message", "pod"], "{reason}: {message}"),
    "webhook.systems.system.condition": (["kind", "reason", "message"], "{reason}: {message}"),
    "webhook.tracking.policy_source.PolicySource.refuse": (["origin", "problems"], "{origin}: {problems}"),
    "webhook.serving.server.text": (["text", "status", "headers"], "{text}"),
}


# Functions that return such texts.
RETURNED: Final = frozenset(
    ("webhook.objects.left_out.unexpected", "webhook.serving.served_certificate.Served.troubles")
)
EVENTS: Final = ("self.ends.fail", "webhook.kube.events.Notice", "webhook.systems.system.condition")


@dataclass(frozen=True)
class Way:
    """How a call makes a message: templates over the parameters of what is called.

    `remedy`: None with one text; `is_event`: whether that is a reason and a message, of an Event or a condition.
    """

    parameters: list[str]
    what: Texts
    remedy: Texts | None
    is_event: bool = False

    def joined(self, other: "Way | None") -> "Way":
        """Return this way and another of the same function as one."""
        if other is None:
            return self
        remedy = None if self.remedy is None or other.remedy is None else unique((*self.remedy, *other.remedy))
        return Way(self.parameters, unique((*self.what, *other.what)), remedy, self.is_event)


@dataclass(frozen=True)
class Message:
    """A call that makes a message: where it stands, and the alternatives of cause and remedy as people read them."""

    file: str
    line: int
    function: str
    what: Texts
    remedy: Texts
    form: str  # "event" for an Event or a condition, "log" for a log line, else empty

    @property
    def place(self) -> str:
        """Where it is made."""
        return f"{self.file}:{self.line}"


class Called(NamedTuple):
    """A call: the function that it stands in, the texts that variables have there, and the name of what is called."""

    reading: Reading
    call: ast.Call
    known: Known
    target: str

    @property
    def is_seen(self) -> bool:
        """False for what a command was asked for, on stdout, and for a ValueError within the program."""
        if self.target == "click.echo":
            return any(one.arg == "err" for one in self.call.keywords)
        return self.target != "ValueError" or self.reading.function.module.name.startswith("webhook.cli.")


@cache
def messages() -> tuple[Message, ...]:
    """Return all messages of the program, in the order of its files."""
    return tuple(sorted(messages_of(program()), key=attrgetter("file", "line")))


def messages_of(program: Program) -> list[Message]:
    """Return the messages that modules make."""
    ways = {**dict(ways_of_classes(program)), **dict(ways_of_texts())}
    own = set(ways)
    calls = [
        Called(reading, call, known, program.target(reading.function, call.func))
        for reading in (Reading(program, function) for function in program.functions.values())
        for call, known in reading.calls
    ]
    while True:
        passed_on: dict[str, Way] = {}
        found: list[Message] = []
        for one in calls:
            way = ways.get(one.target)
            if way is not None and one.is_seen:
                made = made_by(one, way)
                function = one.reading.function
                if any(GIVEN in text for text in (*made.what, *(made.remedy or ()))):
                    passed_on[function.key] = made.joined(passed_on.get(function.key))
                else:
                    found.append(message(function, one.call.lineno, made))
        new = {key: way for key, way in passed_on.items() if key not in own}
        if new.keys() <= ways.keys():
            return [*found, *returned(program), *log_lines(calls)]
        ways |= new


def ways_of_classes(program: Program) -> Iterator[tuple[str, Way]]:
    """Yield the classes with a cause and a remedy."""
    for name in program.classes:
        fields = program.fields(name)
        if {"what", "remedy"} <= set(fields):
            yield name, Way(fields, (given("what"),), (given("remedy"),))


def ways_of_texts() -> Iterator[tuple[str, Way]]:
    """Yield what takes one text."""
    for name, (parameters, form) in TEXTS.items():
        yield name, Way(parameters, (form.replace("{", GIVEN).replace("}", GIVEN),), None, name in EVENTS)


def given(name: str) -> str:
    """Return the template of a parameter."""
    return f"{GIVEN}{name}{GIVEN}"


def made_by(called: Called, way: Way) -> Way:
    """Return what a call makes, over the parameters of the function that it stands in."""
    reading, call, known, _ = called
    arguments = dict(zip(way.parameters, call.args, strict=False))
    arguments |= {one.arg: one.value for one in call.keywords if one.arg}

    def filled(templates: Texts) -> Texts:
        found: list[str] = []
        for template in templates:
            parts = template.split(GIVEN)
            ways = [texts_of(part) if index % 2 else (part,) for index, part in enumerate(parts)]
            found += ["".join(one) for one in product(*ways)]
        return unique(found)

    def texts_of(name: str) -> Texts:
        node = arguments.get(name)
        return (placeholder(name),) if node is None else reading.or_placeholder(node, known)

    remedy = None if way.remedy is None else filled(way.remedy)
    return Way(reading.function.parameters, filled(way.what), remedy, way.is_event)


def returned(program: Program) -> Iterator[Message]:
    """Yield the messages that functions return."""
    for key in program.functions.keys() & RETURNED:
        function = program.functions[key]
        for texts in filter(None, Reading(program, function).returns):
            yield message(function, cast("Definition", function.node).lineno, Way([], texts, None))


def log_lines(calls: Iterable[Called]) -> Iterator[Message]:
    """Yield the log lines that are no mere information."""
    for reading, call, known, target in calls:
        if target in {"log.error", "log.exception", "log.warning"}:
            one = message(reading.function, call.lineno, Way([], reading.or_placeholder(call.args[0], known), None))
            yield replace(one, remedy=one.remedy or (remedy_in_fields(call),), form="log")


def remedy_in_fields(call: ast.Call) -> str:
    """Return what the fields of a log line say of a remedy."""
    fields = {one.arg for one in call.keywords if one.arg}
    why = next((name for name in ("error", "reason", "problems") if name in fields), "exception")
    return f"see the field {why}" + ("; the server tries again" if "retry_in" in fields else "")


def message(function: Function, line: int, made: Way) -> Message:
    """Return what a call makes as people read it."""
    if made.remedy is not None:
        what, remedy = made.what, made.remedy
    else:
        split = [text.partition("; ") for text in made.what]
        what, remedy = unique(one for one, _, _ in split), unique(one for _, _, one in split if one)
    what, remedy = (unique(map(shown, texts)) for texts in (what, remedy))
    return Message(function.module.file, line, function.key, what, remedy, "event" if made.is_event else "")


def unique(texts: Iterable[str]) -> Texts:
    """Return each of some texts once."""
    return tuple(dict.fromkeys(texts))
