"""Shared by the commands: exit codes, safe printing of a line, the option --kubeconfig, and how objects are named."""

from collections.abc import Iterable
from typing import Final, NamedTuple

import click

from webhook.kinds import KindSpec
from webhook.kube.paths import is_name

PROBLEMS: Final = 1
UNUSABLE: Final = 2
LONGEST_LINE: Final = 4096  # characters of a message
DEFAULT_KUBECONFIG: Final = "~/.kube/config"

kubeconfig_option = click.option(
    "--kubeconfig", metavar="FILE", help=f"Default: KUBECONFIG, else {DEFAULT_KUBECONFIG}."
)


def printable(line: str) -> str:
    """Return a line with unprintable characters escaped, and without its middle if it is too long.

    Keys of a document can be any text: line ends and terminal control sequences among them.
    """
    if len(line) > LONGEST_LINE:
        line = f"{line[: LONGEST_LINE // 2]} … {line[-LONGEST_LINE // 2 :]}"
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in line)


class ObjectArgument(NamedTuple):
    """An object as a user names it; `row` is None if its kind was left out."""

    namespace: str
    row: KindSpec | None
    name: str

    def __str__(self) -> str:
        return "/".join([self.namespace, *([self.row.kind.lower()] if self.row is not None else []), self.name])


def object_argument(text: str, rows: Iterable[KindSpec]) -> ObjectArgument:
    """Read NAMESPACE/KIND/NAME or NAMESPACE/NAME, the kind one of `rows`; raise click.UsageError."""
    by_word = {word: row for row in rows for word in (row.kind.lower(), row.resource)}
    kinds = ", ".join(row.kind.lower() for row in dict.fromkeys(by_word.values()))
    namespace, _, rest = text.partition("/")
    if not rest:
        raise click.UsageError(f"{text!r} names no namespace; write NAMESPACE/{text} or NAMESPACE/KIND/{text}")
    kind, slash, name = rest.rpartition("/")
    if slash and kind.lower() not in by_word:
        raise click.UsageError(f"{kind!r} is no kind of this command; write NAMESPACE/KIND/NAME, KIND one of {kinds}")
    if not is_name(namespace) or not is_name(name):
        raise click.UsageError(f"{text!r} names no object; write NAMESPACE/KIND/NAME, such as ml/job/train")
    return ObjectArgument(namespace, by_word.get(kind.lower()), name)


def one_of(words: list[str]) -> str:
    """Return words as a choice: "a", "a or b", "a, b or c"."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
