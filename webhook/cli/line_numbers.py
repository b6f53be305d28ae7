"""Finds the lines of fields in a YAML or JSON text, when a form of output needs them.

The readers of documents keep no lines: that would cost every run the memory of a line for each value.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import yaml

from webhook.objects import strict_yaml
from webhook.objects.problem import Path
from webhook.policy.parse import KEY

Place = tuple[int, Path]  # the number of a document in its file, from 1, and the path of a field in it

POLICY: Final[Path] = ("data", KEY)
BLOCK: Final = re.compile(r":\s*\|[-+0-9]*\s*(#.*)?")  # at the end of a line: the text begins in the next one


class YamlNode:
    """A part of a document that is wanted, or has parts that are; `line` is 0 until it is found."""

    __slots__ = ("line", "parts")

    def __init__(self) -> None:
        self.line = 0
        self.parts: dict[str | int, YamlNode] = {}


def find(text: str, wanted: Iterable[Place]) -> dict[Place, int]:
    """Return the line of each field, from 1; of one that is absent, that of the nearest object around it.

    After the first mistake in the YAML nothing is found.
    """
    wanted = list(wanted)
    trees: dict[int, YamlNode] = {}
    for number, path in wanted:
        node = trees.setdefault(number, YamlNode())
        for part in path:
            node = node.parts.setdefault(part, YamlNode())
    _mark(text, trees)
    lines = ((place, _nearest(trees[place[0]], place[1])) for place in wanted)
    return {place: line for place, line in lines if line}


def find_in_policy(text: str, paths: Iterable[Path]) -> dict[Path, int]:
    """Return the lines of the fields of a policy, which may be in the manifest of a ConfigMap."""
    paths = list(paths)
    found = {path: line for (_, path), line in find(text, [(1, path) for path in paths]).items()}
    inner = _policy_in(text)
    if inner is None:
        return found
    start = find(text, [(1, POLICY)]).get((1, POLICY), 1)
    if BLOCK.search(text.splitlines()[start - 1]) is None:  # in quotes: its lines are not those of the file
        return dict.fromkeys(paths, start)
    return {path: start + line for (_, path), line in find(inner, [(1, path) for path in paths]).items()}


def _policy_in(text: str) -> str | None:
    """Return the text of the policy in the manifest of a ConfigMap; None if the text is none."""
    try:
        value = next((value for value, _ in strict_yaml.read(text) if value is not None), None)
    except strict_yaml.YamlError:
        return None
    data = value.get("data") if isinstance(value, dict) and value.get("kind") == "ConfigMap" else None
    inner = data.get(KEY) if isinstance(data, dict) else None
    return inner if isinstance(inner, str) else None


def _nearest(node: YamlNode, path: Path) -> int:
    """Return the line of the last part of a path that was found; 0 if none was."""
    line = node.line
    for part in path:
        node = node.parts[part]
        line = node.line or line
    return line


def _mark(text: str, trees: dict[int, YamlNode]) -> None:
    events: Iterator[Any] = iter(yaml.parse(text, Loader=strict_yaml.Loader))
    last = max(trees, default=0)
    number = 0
    try:
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                number += 1
                first = next(events)
                _visit(trees.get(number), first, _line_of(first), events)
                if number == last:
                    return
    except yaml.YAMLError:
        return


def _visit(node: YamlNode | None, event: Any, line: int, events: Iterator[Any]) -> None:
    """Read the value that begins with an event; if it is wanted, set its line and those of its parts."""
    if node is not None:
        node.line = line
    if node is None or not node.parts or not isinstance(event, yaml.CollectionStartEvent):
        _skip(event, events)
    elif isinstance(event, yaml.MappingStartEvent):
        while not isinstance(key := next(events), yaml.MappingEndEvent):
            _skip(key, events)
            part = node.parts.get(key.value) if isinstance(key, yaml.ScalarEvent) else None
            _visit(part, next(events), _line_of(key), events)
    else:
        index = 0
        while not isinstance(entry := next(events), yaml.SequenceEndEvent):
            _visit(node.parts.get(index), entry, _line_of(entry), events)
            index += 1


def _skip(event: Any, events: Iterator[Any]) -> None:
    depth = 0
    while True:
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth == 0:
            return
        event = next(events)


def _line_of(event: Any) -> int:
    return int(event.start_mark.line) + 1
