"""The command retry-policy doctor: exit codes, outputs, questions; the checks are tested in tests/unit/doctor."""

import json
from pathlib import Path
from typing import Self

import pytest
from click.testing import CliRunner, Result

from tests.unit.doctor.answers import Answer, Answers
from tests.unit.doctor.test_load import cluster
from webhook.cli import doctor as command
from webhook.cli.console import PLUGIN
from webhook.kube import names
from webhook.kube.client import Api, ApiError
from webhook.systems.job import spec as batch


class Connected(Answers):
    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


def examined(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    *arguments: str,
    paths: dict[str, Answer] | None = None,
    otherwise: ApiError | None = None,
    program: str = "retry-policy",
) -> Result:
    async def connect(*_: object) -> Connected:
        return Connected(cluster() if paths is None else paths, otherwise)

    monkeypatch.setattr(Api, "connect", connect)
    (folder / "config").touch()
    return CliRunner().invoke(command.doctor, [*arguments, f"--kubeconfig={folder / 'config'}"], prog_name=program)


def test_a_problem_is_printed_with_its_command_and_the_exit_code_is_1(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    done = examined(monkeypatch, tmp_path, "-n", "web")
    assert done.exit_code == 1
    assert "  problem  Namespace web: does not exist\n             fix: kubectl get namespaces\n" in done.stdout


def test_the_output_for_programs_is_one_json_object(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    done = examined(monkeypatch, tmp_path, "-o", "json", paths={})
    found = json.loads(done.stdout)
    assert done.exit_code == 1
    assert found["problems"] == len([one for one in found["findings"] if one["status"] == "problem"]) > 0


def test_a_user_who_may_read_nothing_gets_exit_code_2(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    done = examined(monkeypatch, tmp_path, paths={}, otherwise=ApiError(403, "forbidden"))
    assert done.exit_code == 2
    assert "you lack the right to list namespaces" in done.stdout


def test_a_user_whom_the_api_server_does_not_know_gets_exit_code_2(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    done = examined(monkeypatch, tmp_path, paths={}, otherwise=ApiError(401, "unauthorized"))
    assert done.exit_code == 2
    assert done.stderr == "the API server refused the request: 401 unauthorized\n"


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("train",), "'train' names no namespace; write NAMESPACE/train or NAMESPACE/KIND/train, or use -n"),
        (("ml/job/train", "-n", "web"), "'ml/job/train' and -n web name two namespaces; leave one out"),
        (("train", "-n", "a/b"), "'a/b' is not the name of a namespace"),
        (("-n", "a/b"), "'a/b' is not the name of a namespace"),
    ],
)
def test_a_question_that_cannot_be_answered_is_a_wrong_use(
    arguments: tuple[str, ...], what: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    done = examined(monkeypatch, tmp_path, *arguments)
    assert done.exit_code == 2
    assert what in done.stderr


@pytest.mark.parametrize("named", [("ml/job/train",), ("-n", "ml", "job/train"), ("job/train", "-n", "ml")], ids=str)
def test_an_object_can_be_asked_about(named: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    done = examined(monkeypatch, tmp_path, *named)
    assert done.stdout.startswith("Object\n  problem  ml/job/train: does not exist\n")


@pytest.mark.parametrize("named", [("ml/train",), ("-n", "ml", "train"), ("-n", "ml", "ml/job/train")], ids=str)
def test_the_kind_of_an_object_can_be_left_out(
    named: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    paths = cluster()
    paths[batch.JOB.path("ml", "train")] = {"metadata": {"name": "train", "labels": {names.PROFILE: "default"}}}
    done = examined(monkeypatch, tmp_path, *named, paths=paths)
    assert done.stdout.startswith("Object\n  ok       ml/job/train: was not left alone: it has the label ")


def test_the_plugin_takes_the_namespace_of_the_context(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("webhook.cli.console.namespace_of", lambda _: "web")
    (tmp_path / "config").touch()
    done = examined(monkeypatch, tmp_path, "job/train", program=PLUGIN)
    assert done.stdout.startswith("Object\n  problem  web/job/train: does not exist\n")
