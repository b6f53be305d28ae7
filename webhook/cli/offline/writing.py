"""Write values as YAML and JSON in pieces, and as a diff."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, Final

import yaml

from webhook.cli.offline import line_diff
from webhook.objects.strict_yaml import resolve

Dumper: Final[Any] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

STRING: Final = "tag:yaml.org,2002:str"
RESOLVER: Final = yaml.resolver.Resolver()
JSON: Final = json.JSONEncoder(indent=2, ensure_ascii=False, check_circular=False)
PIECE: Final = 4096  # words of JSON that are written at once
REPRESENTER: Final = yaml.representer.SafeRepresenter()
PLAIN_TEXTS: Final = 4096  # strings that are remembered not to need quotes; most of a list's stand in it many times


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream for PyYAML, which passes text and not bytes to a stream with an encoding."""

    write: Callable[[str], object]
    encoding: str = "utf-8"


def as_yaml(value: Any) -> str:
    """Return a value as YAML that kubectl reads as the same value."""
    pieces: list[str] = []
    write_yaml(value, pieces.append)
    return "".join(pieces)


def write_yaml(value: Any, write: Callable[[str], object]) -> None:
    """Write a value as YAML in pieces, so that the text of a large value is never in memory as a whole."""
    yaml.emit(stream_of(value), Stream(write), Dumper=Dumper, allow_unicode=True, width=4096)


def stream_of(value: Any) -> Iterator[yaml.Event]:
    """Yield the YAML events of a text with one document.

    PyYAML would build a tree of nodes first, which takes several times the memory of the value. A value that occurs
    twice is written twice, and not as an alias, because aliases are hard to read.
    """
    yield yaml.StreamStartEvent()
    yield yaml.DocumentStartEvent(explicit=False)
    yield from events_of(value)
    yield yaml.DocumentEndEvent(explicit=False)
    yield yaml.StreamEndEvent()


def events_of(value: Any) -> Iterator[yaml.Event]:
    """Yield the YAML events of one value."""
    if isinstance(value, dict):
        yield yaml.MappingStartEvent(None, None, implicit=True, flow_style=False)
        for key, entry in value.items():
            yield from events_of(key)
            yield from events_of(entry)
        yield yaml.MappingEndEvent()
    elif isinstance(value, list):
        yield yaml.SequenceStartEvent(None, None, implicit=True, flow_style=False)
        for entry in value:
            yield from events_of(entry)
        yield yaml.SequenceEndEvent()
    elif isinstance(value, str):
        plain = is_plain(value)
        style = "|" if "\n" in value else None if plain else "'"
        yield yaml.ScalarEvent(None, None, (plain, True), value, style=style)
    else:
        yield yaml.ScalarEvent(None, None, (True, False), REPRESENTER.represent_data(value).value)


@lru_cache(maxsize=PLAIN_TEXTS)
def is_plain(text: str) -> bool:
    """Return True if kubectl and PyYAML both read a string without quotes as the same string."""
    tag: str = RESOLVER.resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]
    return resolve(text) == text and tag == STRING


def write_json(value: Any, write: Callable[[str], object]) -> None:
    """Write a value as indented JSON, in pieces."""
    words = JSON.iterencode(value)
    while piece := "".join(islice(words, PIECE)):
        write(piece)
    write("\n")


def as_diff(name: str, before: str, after: str, *, denied: bool = False) -> Iterator[str]:
    """Yield the lines of a unified diff; none if nothing has changed. `denied`: whether admission denies the result."""
    result = "as changed, and then denied" if denied else "as admitted"
    yield from line_diff.unified(name, f"{name} {result}", before.splitlines(), after.splitlines())
