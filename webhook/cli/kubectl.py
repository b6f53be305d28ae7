"""The kubectl plugin, and the program that kubectl runs for the completion of its commands.

The arguments of kubectl_complete-retry_policy are those after `kubectl retry-policy`, the last one as far as it is
typed. It prints a suggestion a line, with its description after a tab, and in the last line how the shell is to treat
them, as cobra's __complete does.
"""

import copy
import sys
from collections.abc import Iterator
from typing import Final

import click
from click.shell_completion import CompletionItem, ShellComplete

from webhook import __version__
from webhook.cli.console import PLUGIN, as_called
from webhook.cli.main import OFFLINE, LazyGroup, colours_wanted

# The directives of cobra, github.com/spf13/cobra/completions.go.
FILES: Final = 0
NO_SPACE: Final = 2
NO_FILES: Final = 4


def lines(arguments: list[str]) -> Iterator[str]:
    """Yield what the program prints for its arguments."""
    *before, incomplete = arguments or [""]
    found = ShellComplete(plugin, {}, PLUGIN, "").get_completions(before, incomplete)
    names = [one for one in found if one.type == "plain"]
    yield from (f"{one.value}\t{one.help}" if one.help else str(one.value) for one in names)
    yield f":{_directive(found)}"


def _directive(found: list[CompletionItem[str]]) -> int:
    """Return how the shell is to treat suggestions: whether it offers files too, and adds a space to the only one."""
    if any(one.type != "plain" for one in found):
        return FILES
    return NO_FILES | NO_SPACE if any(one.value.endswith("/") for one in found) else NO_FILES


def complete() -> None:
    """Print the suggestions for the arguments of this process."""
    sys.stdout.writelines(f"{line}\n" for line in lines(sys.argv[1:]))


class PluginFormatter(click.HelpFormatter):
    """Writes help that names commands as kubectl runs them."""

    def getvalue(self) -> str:
        """Return what was written."""
        return as_called(super().getvalue())


class PluginContext(click.Context):
    """The context of a command of the plugin."""

    formatter_class = PluginFormatter


class Plugin(LazyGroup):
    """The commands that ask a cluster."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of these commands."""
        return [name for name in super().list_commands(ctx) if name not in OFFLINE]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command, whose help names commands as kubectl runs them; None if there is none."""
        command = super().get_command(ctx, cmd_name)
        if command is None:
            return None
        adapted = copy.copy(command)
        adapted.context_class = PluginContext
        adapted.help = as_called(command.help or "")  # before its lines are broken
        return adapted


@click.group(cls=Plugin, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name=PLUGIN)
def plugin() -> None:
    """See what retries cost, and rerun, suspend and resume work, in the cluster and namespace that kubectl uses.

    A workload is named as kubectl names it, [KIND/]NAME, in the namespace of -n or of the context. NAMESPACE/KIND/NAME
    names one of another namespace.
    """
    click.get_current_context().color = colours_wanted()


def main() -> None:
    """Run the plugin."""
    plugin(prog_name=PLUGIN)
