"""Decode YAML text to plain JSON values as kubectl does: `1e3` is a number, a date and `1:30` are strings.

kubectl converts YAML to JSON with sigs.k8s.io/yaml, which uses go-yaml v2. Scalars, keys and merges are read as in
their sources (resolve.go, decode.go; YAMLToJSON). PyYAML parses the text into events. Its loaders, and classes derived
from them, cannot build the values:

- The composer rejects an anchor that is written twice, which kubectl accepts. Its tree of nodes takes nine times the
  memory of the values, and two to five times the CPU time.
- A resolver finds a type by a regular expression. go-yaml first removes the underscores of a number, reads an integer
  that exceeds 64 bits as a float, and compares an explicit tag with the type that the text would have without it.
- A constructor gives all aliases the same object, and does not know the path of the value that it constructs.
"""

import math
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final, NamedTuple

import yaml

from webhook.objects.bounds import MOST_PROBLEMS
from webhook.objects.problem import Path, Problem

# libyaml's parser is ten times as fast as PyYAML's own; a PyYAML that was built without libyaml has only its own.
Loader: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

# Levels of one document: more than any Kubernetes object has (the deepest are schemas of custom resources), and few
# enough for a recursion over the value: Python's limit is 1000 calls.
DEPTH: Final = 100

# The most that aliases may add to one text: for each value its characters and VALUE_COST, for the memory of the value.
ALIASES_ADD: Final = 16 * 1024 * 1024
VALUE_COST: Final = 32

# Values in one text, including keys; an object or a list takes as much memory as three strings, up to 300 bytes.
MOST_VALUES: Final = 4_000_000
CONTAINER: Final = 3

# Lines that begin with %: the parser compares each %TAG with all earlier ones.
MOST_DIRECTIVES: Final = 100
DIRECTIVE: Final = re.compile("^%", re.MULTILINE)

LINE: Final = re.compile("([^\n\r\x85\u2028\u2029]*)(?:\r\n|[\n\r\x85\u2028\u2029]|$)")

WORDS: Final = (
    dict.fromkeys(("", "~", "null", "Null", "NULL"), None)
    | dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True)
    | dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False)
    | dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan)
    | dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf)
    | dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf)
)
INTEGER: Final = re.compile(r"[-+]?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO][0-7]+|(0[0-7]+)|0|[1-9][0-9]*)")
INTEGER_LENGTH: Final = 70  # characters; the longest integer of 64 bits is binary, with sign and prefix
NUMBER: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")

# The explicit tags that go-yaml checks, with the types that the value may have. It ignores all other tags.
TAGGED: Final[dict[str, tuple[type, ...]]] = {
    "tag:yaml.org,2002:null": (type(None),),
    "tag:yaml.org,2002:bool": (bool,),
    "tag:yaml.org,2002:int": (int,),
    "tag:yaml.org,2002:float": (int, float),
}

# YAML 1.1, c-printable.
UNPRINTABLE: Final = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

# `{{` with no quote before it; in quotes it is an ordinary string.
TEMPLATE: Final = re.compile(r"[^\"'#]*\{\{")
RENDER_FIRST: Final = "render the template first (helm template), or put {{ }} in quotes"

NO_DIRECTIVE: Final = "remove the %YAML line"


class KnownText(NamedTuple):
    """A part of what the parser says, and its remedy."""

    what: str
    remedy: str


# The first whose part is in the parser's message; the last one is in every message.
KNOWN: Final = (
    KnownText("mapping values are not allowed", 'put a value that contains ": " in quotes, or correct the indentation'),
    KnownText("cannot start any token", "put a value that begins with a special character in quotes"),
    KnownText("found unexpected ':'", "put a value that ends with a colon in quotes"),
    KnownText("<document start>", "put a line with --- between two documents, or correct the indentation"),
    KnownText("end of stream", "close the quote"),
    KnownText("escape character", "write what JSON allows after a backslash, or use single quotes"),
    KnownText("incompatible YAML", NO_DIRECTIVE),
    KnownText("", "correct the indentation, or close what is still open"),
)


class YamlError(Exception):
    """The text cannot be read any further. Line and column count from 1."""

    def __init__(self, line: int, column: int, what: str, remedy: str) -> None:
        super().__init__(f"line {line}, column {column}: {what}; {remedy}")
        self.line = line
        self.column = column
        self.what = what
        self.remedy = remedy


def read(text: str, *, strict: bool = False) -> Iterator[tuple[Any, list[Problem]]]:
    """Yield each document's value and its problems; raise YamlError if the text cannot be read.

    The value of an empty document is None. The values share no object: an alias becomes a copy. All keys are strings:
    numbers and booleans are converted, as in kubectl. A duplicate key is a problem; its last value is used, as in
    kubectl. With `strict`, an alias, a merge key, a tag and a key that is not a string are problems too. At most
    MOST_PROBLEMS are reported for each document.
    """
    if found := UNPRINTABLE.search(text):
        line, column = text.count("\n", 0, found.start()) + 1, found.start() - text.rfind("\n", 0, found.start())
        raise YamlError(line, column, f"the character U+{ord(found[0]):04X} is not allowed", "remove it")
    if found := next(islice(DIRECTIVE.finditer(text), MOST_DIRECTIVES, None), None):
        line = text.count("\n", 0, found.start()) + 1
        raise YamlError(line, 1, f"more than {MOST_DIRECTIVES} lines begin with %", NO_DIRECTIVE)
    try:  # kubectl's reader adds the last newline too, so that a block scalar keeps it
        yield from YamlReader(text if text.endswith("\n") else f"{text}\n", strict=strict).documents()
    except yaml.MarkedYAMLError as error:
        raise syntax_error(text, error) from None


class YamlReader:
    """Builds values from the parser's events.

    They have at most DEPTH levels, there are at most MOST_VALUES in the whole text, and aliases add at most
    ALIASES_ADD.
    """

    def __init__(self, text: str, *, strict: bool) -> None:
        self.events: Iterator[Any] = iter(yaml.parse(text, Loader=Loader))
        self.strict = strict
        self.left_to_aliases = ALIASES_ADD
        self.left = MOST_VALUES
        self.begin()

    def begin(self) -> None:
        """Start a document: forget the anchors and problems of the one before."""
        self.anchors: dict[str, list[Any]] = {}  # each a list with the value; the list is empty until the value ends
        self.problems: list[Problem] = []

    def documents(self) -> Iterator[tuple[Any, list[Problem]]]:
        """Yield each document's value and problems."""
        for event in self.events:
            if isinstance(event, yaml.DocumentStartEvent):
                self.begin()
                yield self.node(next(self.events), ()), self.problems

    def node(self, event: Any, path: Path) -> Any:
        """Return the value at `path`, which begins with this event; raise YamlError if it has too many levels."""
        if len(path) > DEPTH:
            raise too_deep(event)
        if isinstance(event, yaml.AliasEvent):
            return self.alias(event, path)
        if event.tag is not None:
            self.refuse(event, path, "has a tag", "leave it out")
        anchored: list[Any] = []
        if event.anchor is not None:
            self.anchors[event.anchor] = anchored
        value: Any
        if isinstance(event, yaml.ScalarEvent):
            self.take(1, event)
            value = scalar(event)
        elif isinstance(event, yaml.SequenceStartEvent):
            self.take(CONTAINER, event)
            value = self.sequence(path)
        else:
            self.take(CONTAINER, event)
            value = self.mapping(path)
        anchored.append(value)
        return value

    def sequence(self, path: Path) -> list[Any]:
        """Return the list at `path`, read up to its end."""
        result: list[Any] = []
        while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
            result.append(self.node(event, (*path, len(result))))
        return result

    def mapping(self, path: Path) -> dict[str, Any]:
        """Return the object at `path`, read up to its end."""
        result: dict[str, Any] = {}
        written: set[str] = set()
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            if is_merge(event):
                self.merge(result, event, (*path, "<<"))
                continue
            key = self.key(event, path)
            if key in written:
                line = event.start_mark.line + 1
                self.note(Problem((*path, key), f"is written twice, again in line {line}", "keep one"))
            written.add(key)
            result[key] = self.node(next(self.events), (*path, key))
        return result

    def key(self, event: Any, path: Path) -> str:
        """Return a key as a string, as sigs.k8s.io/yaml does; raise YamlError if it is an object, a list or null."""
        if isinstance(event, yaml.MappingStartEvent):  # refused before it is read, because its levels are not in a path
            raise failure(event, "an object is in the place of a key, as {{ }} produces it", RENDER_FIRST)
        value = None if isinstance(event, yaml.SequenceStartEvent) else self.node(event, path)
        if isinstance(value, str):
            return value
        if value is None or isinstance(value, dict | list):
            raise failure(event, "there is no key before the colon", "write a name there")
        text = str(value).lower() if isinstance(value, bool) else str(value)
        self.refuse(event, (*path, text), "is a key that is not a string", "put it in quotes")
        return text

    def merge(self, result: dict[str, Any], event: Any, path: Path) -> None:
        """Add the fields of the merged objects to `result`.

        As in go-yaml, a merge replaces the fields before it, and later fields replace those of the merge. If several
        merged objects have a field, the first one's value is used. Raise YamlError if a merged value is not an object.
        """
        self.refuse(event, path, "merges another object", "write its fields out")
        value = self.node(next(self.events), path)
        for source in reversed(value) if isinstance(value, list) else [value]:
            if not isinstance(source, dict):
                raise failure(event, "<< merges what is not an object", "merge an object or a list of objects")
            result.update(source)

    def alias(self, event: Any, path: Path) -> Any:
        """Return a copy of the anchor's value; raise YamlError if there is no such anchor, or it has not ended."""
        anchored = self.anchors.get(event.anchor)
        if anchored is None:
            raise failure(
                event, f"the alias *{event.anchor} has no anchor &{event.anchor} before it", "write the value out"
            )
        if not anchored:
            raise failure(
                event, f"the alias *{event.anchor} is inside its own anchor &{event.anchor}", "write the value out"
            )
        self.refuse(event, path, "is an alias", "write the value out")
        return self.copied(anchored[0], event, len(path))

    def copied(self, value: Any, event: Any, depth: int) -> Any:
        """Return a copy of a value; raise YamlError if it has too many levels or aliases have added too much."""
        if depth > DEPTH:
            raise too_deep(event)
        self.left_to_aliases -= VALUE_COST + (len(value) if isinstance(value, str) else 0)
        if self.left_to_aliases < 0:
            raise failure(event, "the aliases expand to too much data", "write the values out")
        if isinstance(value, dict):
            return {key: self.copied(entry, event, depth + 1) for key, entry in value.items()}
        if isinstance(value, list):
            return [self.copied(entry, event, depth + 1) for entry in value]
        return value

    def refuse(self, event: Any, path: Path, what: str, remedy: str) -> None:
        """Add a problem if the reader is strict."""
        if self.strict:
            self.note(Problem(path, f"{what} (line {event.start_mark.line + 1})", remedy))

    def note(self, problem: Problem) -> None:
        """Add a problem, up to MOST_PROBLEMS."""
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(problem)

    def take(self, count: int, event: Any) -> None:
        """Count values; raise YamlError if the text has too many."""
        self.left -= count
        if self.left < 0:
            raise failure(event, f"there are more than {MOST_VALUES:,} values up to here", "split the file")


def scalar(event: Any) -> Any:
    """Return the value of a scalar: a string if it is quoted; if it is plain, the type depends on its text.

    Raise YamlError if JSON has no such value, or if the text does not fit an explicit tag.
    """
    text: str = event.value
    if event.tag is None:
        value = resolve(text) if event.implicit[0] else text
    elif event.tag == "tag:yaml.org,2002:binary":
        raise failure(event, "!!binary is not allowed in JSON", "write the base64 text as a string")
    elif event.tag in TAGGED:
        value = resolve(text)
        if type(value) not in TAGGED[event.tag]:
            kind = event.tag.rpartition(":")[2]
            raise failure(event, f"{text[:40]!r} cannot be read as !!{kind}", "leave the tag out")
    else:
        value = text
    if isinstance(value, float) and not math.isfinite(value):
        raise failure(event, f"{text} is not allowed in JSON", "write a finite number, or put it in quotes")
    return value


def resolve(text: str) -> Any:
    """Return the value of a plain scalar, as go-yaml v2 does (resolve.go).

    A float without a fraction becomes an integer: kubectl's JSON has 1000 for 1e3 and 6 for 6.0.
    """
    if text in WORDS:
        return WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    plain = text if text[0] == "." else text.replace("_", "")
    if len(plain) <= INTEGER_LENGTH and (found := INTEGER.fullmatch(plain)):
        value = int(plain, 8 if found[1] else 0)
        if -(2**63) <= value < 2**64:
            return value
    if NUMBER.fullmatch(plain) and math.isfinite(number := float(plain)):
        return int(number) if number.is_integer() and abs(number) < 2**63 else number
    return text


def is_merge(event: Any) -> bool:
    """Return True if a key is a merge key: `<<` in quotes is an ordinary field."""
    return (
        isinstance(event, yaml.ScalarEvent)
        and event.value == "<<"
        and (event.implicit[0] or event.tag == "tag:yaml.org,2002:merge")
    )


def failure(event: Any, what: str, remedy: str) -> YamlError:
    """Return the error for a text that cannot be read, with the event's line and column."""
    return YamlError(event.start_mark.line + 1, event.start_mark.column + 1, what, remedy)


def too_deep(event: Any) -> YamlError:
    """Return the error for a value with too many levels."""
    return failure(
        event, f"the document is nested more than {DEPTH} levels deep", "no Kubernetes object is: check the indentation"
    )


def syntax_error(text: str, error: Any) -> YamlError:
    """Return the parser's error with a remedy."""
    line: int = error.problem_mark.line
    column: int = error.problem_mark.column
    near = [found[1] for found in islice(LINE.finditer(text), max(line - 1, 0), line + 1)]
    what = str(error.problem)
    remedy = next(known.remedy for known in KNOWN if known.what in what)
    if error.context is not None:
        what += f", {error.context}"
    if error.context_mark is not None and error.context_mark.line != line:
        what += f" that begins in line {error.context_mark.line + 1}"
    if any(TEMPLATE.match(one) for one in near):
        remedy = RENDER_FIRST
    elif any(one[column : column + 1] == "\t" for one in near[-1:]):
        remedy = "indent with spaces, not with tabs"
    return YamlError(line + 1, column + 1, what, remedy)
