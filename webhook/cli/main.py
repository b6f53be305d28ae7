"""The command line: retry-policy COMMAND."""

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any, Final

import click

from webhook import __version__
from webhook.objects.left_out import unexpected

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# Each command: the module that has it, and its line in the list. A module is imported when its command is called.
COMMANDS: Final = {
    "serve": ("serve", "Answer admission requests until SIGTERM."),
    "control": ("control", "Count attempts, write accounts, end and rerun workloads."),
    "render": ("render", "Print what admission would make of each document."),
    "check": ("check", "Print what admission would deny, in files or in a cluster."),
    "export": ("export", "Print the retry limits as policies that need no webhook."),
    "test": ("test", "Test a policy: compare what admission does with what is expected."),
    "doctor": ("doctor", "Check an installation, and say how to correct it."),
    "report": ("report", "Print what attempts used, lost and saved."),
    "dashboard": ("dashboard", "Show the report of a cluster in your browser, live."),
    "simulate": ("simulate", "Tell what another policy would have done."),
    "explain": ("explain", "Tell what every attempt of a workload cost, and why."),
    "retry": ("retry", "Rerun failed work."),
    "suspend": ("suspend", "Suspend a Job, CronJob, JobSet or RayJob."),
    "resume": ("suspend", "Resume a suspended Job, CronJob, JobSet or RayJob."),
}
# The commands that ask no cluster: the kubectl plugin is without them.
OFFLINE: Final = {"serve", "control", "render", "test", "export"}
PROGRAMS: Final = {"serve", "control"}
NO_COLOURS: Final = "NO_COLOR"
FORCE_COLOURS: Final = "FORCE_COLOR"


class Unexpected(click.ClickException):
    """An error of ours that ends a command."""

    exit_code = 2

    def __init__(self, error: Exception) -> None:
        super().__init__(unexpected(error))


class LazyGroup(click.Group):
    """A group whose commands are imported on demand."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names of all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command; None if there is none of that name."""
        if cmd_name not in self.list_commands(ctx):
            return None
        module, _ = COMMANDS[cmd_name]
        command: click.Command = getattr(importlib.import_module(f"webhook.cli.{module}"), cmd_name)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command. What it did not expect becomes a message with its place in the code, and the exit code 2.

        The programs of a cluster keep their traceback: it belongs into their log.
        """
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.Abort, click.exceptions.Exit, BrokenPipeError):
            raise
        except Exception as error:
            if ctx.invoked_subcommand in PROGRAMS:
                raise
            raise Unexpected(error) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][1]) for name in self.list_commands(ctx)])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem[str]]":
        """Return what a shell offers for a command, without importing the commands."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - no other command needs it

        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        options = click.Command.shell_complete(self, ctx, incomplete)
        return [*(CompletionItem(name, help=COMMANDS[name][1]) for name in names), *options]


def is_for_people() -> bool:
    """Return True if stdout is a terminal, or the user asks for colours wherever it goes."""
    return bool(os.environ.get(FORCE_COLOURS)) or is_terminal(sys.stdout)


def colours_wanted() -> bool | None:
    """Return whether the user asks for colours or for none; None if neither: then terminals get colours."""
    if os.environ.get(NO_COLOURS):
        return False
    return True if os.environ.get(FORCE_COLOURS) else None


def is_terminal(stream: object) -> bool:
    """Return True if a stream is a terminal; it is None if it is closed."""
    isatty = getattr(stream, "isatty", None)
    return isatty is not None and bool(isatty())


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="retry-policy")
def main() -> None:
    """One retry policy for every batch workload in a Kubernetes cluster."""
    click.get_current_context().color = colours_wanted()
