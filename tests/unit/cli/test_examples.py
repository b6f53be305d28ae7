"""The examples at the end of --help."""

import shlex
from typing import Final

import click
import pytest
from click.testing import CliRunner

from webhook.cli.main import COMMANDS, main
from webhook.cli.terminal import WithExamples

PROGRAM: Final = "retry-policy"


def examples_of(name: str) -> list[tuple[str, str]]:
    command = main.get_command(click.Context(main), name)
    assert isinstance(command, WithExamples), f"{name} has no examples: @command((WHAT, LINE), …)"
    return list(command.examples)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_each_command_ends_with_examples(name: str) -> None:
    help_text = CliRunner().invoke(main, [name, "--help"], prog_name=PROGRAM).stdout
    _, _, end = help_text.partition("\nExamples:\n")
    assert end == "\n".join(f"  # {what}\n  {text}\n" for what, text in examples_of(name))


@pytest.mark.parametrize("name", COMMANDS)
def test_each_example_is_a_command_line_that_the_command_accepts(name: str) -> None:
    assert examples_of(name)
    for _, text in examples_of(name):
        (ours,) = (part for part in text.partition(" > ")[0].split(" | ") if part.startswith(PROGRAM))
        words = shlex.split(ours)
        assert words[:2] == [PROGRAM, name]
        command = main.get_command(click.Context(main), name)
        assert command is not None
        command.make_context(name, words[2:], parent=click.Context(main, info_name=PROGRAM))


def test_a_command_with_examples_has_them_after_its_options() -> None:
    @click.command(cls=WithExamples, examples=(("Nothing", "nothing --at-all"),))
    def nothing() -> None:
        """Do nothing."""

    assert CliRunner().invoke(nothing, ["--help"]).stdout.endswith("\nExamples:\n  # Nothing\n  nothing --at-all\n")
