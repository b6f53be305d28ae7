"""The kubectl plugin: the program kubectl-retry_policy, which kubectl runs as `kubectl retry-policy`."""

import copy

import click

from webhook import __version__
from webhook.cli.console import PLUGIN, as_called
from webhook.cli.main import OFFLINE, LazyGroup
from webhook.cli.terminal import colours


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
    click.get_current_context().color = colours.wanted()


def main() -> None:
    """Run the plugin."""
    plugin(prog_name=PLUGIN)
