"""Shared by the commands: exit codes, safe printing of a line, and the option --kubeconfig."""

from typing import Final

import click

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
