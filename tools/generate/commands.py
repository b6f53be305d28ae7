"""The help of each command, as docs/reference/command-line.md shows it."""

import click

from webhook.cli.main import COMMANDS, main

WIDTH = 100


def reference() -> str:
    """Return a heading and the help for each command."""
    return "\n".join(f"## {name}\n\n```\n{help_of(name)}\n```\n" for name in COMMANDS)


def help_of(name: str) -> str:
    """Return what `retry-policy NAME --help` prints."""
    group = click.Context(main, info_name="retry-policy", **main.context_settings)
    command = main.get_command(group, name)
    assert command is not None
    command._help_option = None  # noqa: SLF001 - click keeps the option of the context that was first, maybe a test's
    return command.get_help(click.Context(command, group, name, terminal_width=WIDTH, max_content_width=WIDTH))
