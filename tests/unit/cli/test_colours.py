"""Whether output is for people, and coloured."""

import io
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from tests.objects import job, job_spec
from webhook.cli import main as main_module
from webhook.cli.main import main


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({}, None),
        ({"NO_COLOR": "1"}, False),
        ({"FORCE_COLOR": "1"}, True),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
        ({"NO_COLOR": "", "FORCE_COLOR": ""}, None),
    ],
)
def test_the_environment_switches_colours_off_or_on(
    environment: dict[str, str], *, wanted: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert main_module.colours_wanted() is wanted


def test_output_is_for_people_on_a_terminal_or_if_they_ask_for_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert not main_module.is_for_people()
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert main_module.is_for_people()
    monkeypatch.delenv("FORCE_COLOR")
    monkeypatch.setattr(sys, "stdout", Terminal())
    assert main_module.is_for_people()


def test_a_closed_stream_is_no_terminal() -> None:
    assert not main_module.is_terminal(None)


@pytest.mark.usefixtures("in_a_folder")
@pytest.mark.parametrize("arguments", [("check", "-f", "a.yaml"), ("render", "-f", "a.yaml", "-o", "diff")])
def test_output_to_a_pipe_is_coloured_only_if_users_ask_for_it(
    arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("a.yaml").write_text(yaml.safe_dump(job(job_spec(backoffLimit=25))))
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    assert "\x1b[" not in CliRunner().invoke(main, arguments).stdout
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" in CliRunner().invoke(main, arguments).stdout
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in CliRunner().invoke(main, arguments).stdout
