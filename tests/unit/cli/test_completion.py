"""What the program kubectl_complete-retry_policy prints for kubectl."""

import asyncio
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete

from webhook.cli import kubectl
from webhook.cli.console import PLUGIN
from webhook.cli.main import COMMANDS, main

KUBECONFIG = "contexts: [{name: lab}, {name: prod}, {name: local}]"


def printed(*arguments: str) -> list[str]:
    return list(kubectl.lines(list(arguments)))


def test_commands_are_offered_with_what_they_do() -> None:
    assert printed("re") == [
        "report\tPrint what attempts used, lost and saved.",
        "retry\tRerun failed work.",
        "resume\tResume a suspended Job, CronJob, JobSet or RayJob.",
        ":4",
    ]
    assert printed()[-1] == ":4"


def test_options_are_offered() -> None:
    found = printed("explain", "--con")
    assert [line.partition("\t")[0] for line in found] == ["--context", ":4"]


def test_for_a_kubeconfig_the_shell_offers_files() -> None:
    assert printed("explain", "--kubeconfig", "") == [":0"]


def test_contexts_of_the_kubeconfig_are_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "config"
    assert printed("explain", f"--kubeconfig={file}", "--context", "l") == [":4"]
    file.write_text(KUBECONFIG)
    assert printed("explain", f"--kubeconfig={file}", "--context", "l") == ["lab", "local", ":4"]
    monkeypatch.setenv("KUBECONFIG", str(file))
    assert printed("explain", "--context", "p") == ["prod", ":4"]
    file.write_text("[")
    assert printed("explain", "--context", "p") == [":4"]


def test_kinds_are_offered_and_the_shell_adds_no_space() -> None:
    assert printed("suspend", "jobs") == ["jobset/", ":6"]
    assert printed("suspend", "-n", "ml", "cron") == ["cronjob/", ":6"]
    assert printed("suspend", "job/tr") == [":4"]


def test_a_kind_with_the_name_of_another_is_offered_with_its_group() -> None:
    assert printed("explain", "job.") == ["job.batch.volcano.sh/", ":6"]


def offered(*arguments: str) -> list[str]:
    *before, incomplete = arguments
    return [one.value for one in ShellComplete(main, {}, "retry-policy", "").get_completions(before, incomplete)]


def test_retry_policy_offers_kinds_once_the_namespace_is_typed() -> None:
    assert offered("suspend", "m") == []
    assert offered("suspend", "ml/jobs") == ["ml/jobset/"]
    assert offered("suspend", "-n", "ml", "jobs") == ["jobset/"]


def test_nothing_asks_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(asyncio, "run", refused)
    for group, name in ((main, "retry-policy"), (kubectl.plugin, PLUGIN)):
        for command in COMMANDS:
            found = group.get_command(click.Context(group), command)
            for parameter in found.params if found is not None else ():
                typed = [parameter.opts[0]] if isinstance(parameter, click.Option) and not parameter.is_flag else []
                ShellComplete(group, {}, name, "").get_completions([command, *typed], "")
