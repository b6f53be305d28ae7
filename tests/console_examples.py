"""The console examples of the docs: each command, where it stands, and the output that the page shows for it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[1]
PAGES: Final = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK: Final = re.compile(r"^ *```console\n(?P<text>.*?)^ *```$", re.DOTALL | re.MULTILINE)
PROMPT: Final = "$ "
SUBSTITUTION: Final = re.compile(r"\$\(([^()]*)\)")
REDIRECTION: Final = re.compile(r"\s\d?>{1,2}\s*\S+")
OPERATORS: Final = "|&;\n"
# Words of the shell before a command, or after it.
BEFORE: Final = {"do", "then"}
AFTER: Final = {"done", "fi"}
WITHOUT_COMMAND: Final = {"cd", "echo", "export", "for"}


class Example(NamedTuple):
    """A command of a page; `shown` is what the page shows as its output, empty if it shows none."""

    page: str
    command: str
    shown: str

    @property
    def simple_commands(self) -> list[list[str]]:
        """The words of each program call in the command: of a pipeline, of `&&`, and of `$(…)`."""
        return list(simple_commands(self.command))


def examples() -> list[Example]:
    """Return the commands of all pages, in their order."""
    return [
        Example(str(page.relative_to(ROOT)), command, shown)
        for page in PAGES
        for block in BLOCK.finditer(page.read_text())
        for command, shown in steps(dedent(block["text"]))
    ]


def steps(block: str) -> Iterator[tuple[str, str]]:
    """Yield each command of a block, with all lines of it, and the output after it."""
    for part in re.split(rf"^{re.escape(PROMPT)}", block, flags=re.MULTILINE)[1:]:
        lines = part.splitlines(keepends=True)
        size = next(size for size in range(1, len(lines) + 1) if is_whole("".join(lines[:size])))
        yield "".join(lines[:size]).rstrip("\n"), "".join(lines[size:])


def is_whole(text: str) -> bool:
    """Return True if a command does not continue on the next line."""
    try:
        words = shlex.split(text, comments=True)
    except ValueError:
        return False  # a quotation is open
    return not text.endswith("\\\n") and (words[0] != "for" or words[-1] == "done")


def simple_commands(command: str) -> Iterator[list[str]]:
    """Yield the words of each program call."""
    command = command.replace("\\\n", " ")
    for inner in SUBSTITUTION.findall(command):
        yield from simple_commands(inner)
    lexer = shlex.shlex(
        REDIRECTION.sub("", SUBSTITUTION.sub("VALUE", command)), posix=True, punctuation_chars=OPERATORS
    )
    lexer.whitespace = " \t"
    lexer.whitespace_split = True
    words: list[str] = []
    for word in [*lexer, ";"]:
        if set(word) <= set(OPERATORS):
            if words and words[0] not in WITHOUT_COMMAND:
                yield words
            words = []
        elif word not in (AFTER if words else BEFORE | AFTER):
            words.append(word)
