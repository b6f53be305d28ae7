"""Write objects as YAML or JSON, and the difference that admission makes, in linear time; difflib takes quadratic time.

The identity of a line consists of its parent line (by indentation), its text, and the number of equal lines before it
under the same parent. Lines with the same identity in both texts are the same line if their order is the same:
admission adds, removes and changes lines, but does not move them.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, Final

import yaml

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
    yaml.emit(_stream_of(value), Stream(write), Dumper=Dumper, allow_unicode=True, width=4096)


def _stream_of(value: Any) -> Iterator[yaml.Event]:
    """Yield the YAML events of a text with one document.

    PyYAML would build a tree of nodes first, which takes several times the memory of the value. A value that occurs
    twice is written twice, and not as an alias, because aliases are hard to read.
    """
    yield yaml.StreamStartEvent()
    yield yaml.DocumentStartEvent(explicit=False)
    yield from _events_of(value)
    yield yaml.DocumentEndEvent(explicit=False)
    yield yaml.StreamEndEvent()


def _events_of(value: Any) -> Iterator[yaml.Event]:
    if isinstance(value, dict):
        yield yaml.MappingStartEvent(None, None, implicit=True, flow_style=False)
        for key, entry in value.items():
            yield from _events_of(key)
            yield from _events_of(entry)
        yield yaml.MappingEndEvent()
    elif isinstance(value, list):
        yield yaml.SequenceStartEvent(None, None, implicit=True, flow_style=False)
        for entry in value:
            yield from _events_of(entry)
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
    yield from unified(name, f"{name} {result}", before.splitlines(), after.splitlines())


CONTEXT: Final = 5  # unchanged lines around a change
KEPT: Final = " "
REMOVED: Final = "-"
ADDED: Final = "+"

Name = int
Names = dict[tuple[Name, str, int], Name]


def unified(title: str, title_after: str, before: list[str], after: list[str]) -> Iterator[str]:
    """Yield the lines of a unified diff; none if the texts are equal."""
    lines = list(merged(before, after))
    spans = list(changed_spans(lines))
    if not spans:
        return
    yield f"--- {title}"
    yield f"+++ {title_after}"
    done = removed_or_kept = added_or_kept = 0
    for start, end in spans:
        between = start - done
        removed_or_kept += between
        added_or_kept += between
        hunk = lines[start:end]
        length = sum(sign != ADDED for sign, _ in hunk)
        length_after = sum(sign != REMOVED for sign, _ in hunk)
        yield f"@@ -{_numbers(removed_or_kept, length)} +{_numbers(added_or_kept, length_after)} @@"
        yield from (sign + line for sign, line in hunk)
        removed_or_kept += length
        added_or_kept += length_after
        done = end


def merged(before: list[str], after: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the lines of both texts, each with KEPT, REMOVED or ADDED."""
    names: Names = {}
    identities_before = _identities_of(before, names)
    place_of = {name: place for place, name in enumerate(_identities_of(after, names))}
    done = 0
    for line, name in zip(before, identities_before, strict=True):
        place = place_of.get(name, -1)
        if place < done:
            yield REMOVED, line
            continue
        yield from ((ADDED, added) for added in after[done:place])
        yield KEPT, line
        done = place + 1
    yield from ((ADDED, added) for added in after[done:])


def _identities_of(lines: list[str], names: Names) -> list[Name]:
    """Return the identity of each line, unique in the text, as a number; add new identities to `names`."""
    times: Counter[tuple[Name, str]] = Counter()
    above: list[tuple[int, Name]] = [(-1, 0)]  # depth and identity of the possible parents of the next line
    result = []
    for line in lines:
        depth = _depth_of(line) if line else above[-1][0] + 1  # an empty line is part of a text of several lines
        while above[-1][0] >= depth:
            above.pop()
        parent = above[-1][1]
        times[parent, line] += 1
        name = names.setdefault((parent, line, times[parent, line]), len(names) + 1)
        above.append((depth, name))
        result.append(name)
    return result


def _depth_of(line: str) -> int:
    """Return the depth of a line; list items are deeper than the key of their list, even with the same indentation."""
    text = line.lstrip(" ")
    return 2 * (len(line) - len(text)) + text.startswith("-")


def changed_spans(lines: list[tuple[str, str]]) -> Iterator[tuple[int, int]]:
    """Yield start and end of each group of changes with its context lines; groups that touch are one."""
    start = end = 0
    for index, (sign, _) in enumerate(lines):
        if sign == KEPT:
            continue
        if index - CONTEXT > end:
            if end:
                yield start, end
            start = index - CONTEXT
        end = min(index + CONTEXT + 1, len(lines))
    if end:
        yield start, end


def _numbers(before: int, length: int) -> str:
    """Return first line and length of a hunk, as diff writes them."""
    if length == 1:
        return str(before + 1)
    return f"{before + 1 if length else before},{length}"
