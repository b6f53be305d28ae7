"""The command line in this process: what the console script runs, without the second that Python takes to start it."""

from __future__ import annotations

from typing import TYPE_CHECKING
from unittest.mock import patch

from click import Group
from click.testing import CliRunner

from webhook.cli.main import LazyGroup, main

if TYPE_CHECKING:
    from click.testing import Result


def run(*arguments: str, stdin: str = "") -> Result:
    """Run a command and return its exit code and output; raise the exceptions that it does not handle."""
    with patch.object(LazyGroup, "invoke", Group.invoke):  # it turns an error of ours into a message
        return CliRunner().invoke(main, arguments, input=stdin, prog_name="retry-policy", catch_exceptions=False)
