"""The exit codes of `retry-policy check --cluster`, and its policy."""

import asyncio
from pathlib import Path
from typing import Self

import pytest
from click.testing import CliRunner, Result

from tests import virtual_time
from tests.admission import lacking
from tests.objects import job, job_spec
from tests.unit.cli.test_check_cluster_lists import CONFIG_MAPS, Lists, namespace_of, stored
from tests.unit.cli.test_colours import Terminal
from webhook.cli import check_cluster as command
from webhook.cli.check import check
from webhook.cli.check_cluster import Judgements
from webhook.cli.console import ERASE
from webhook.cli.terminal import Progress
from webhook.kube.client import Api, ApiError
from webhook.objects.problem import Json

CODES = list(range(1, 260))  # more than the API accepts in one rule
TOO_MANY_CODES = (
    "{apiVersion: retry-policy.dev/v1alpha1, kind: RetryPolicy,"
    f" profiles: {{default: {{failurePolicy: {{retriableExitCodes: {CODES}}}}}}}}}"
)
STRICT = "{apiVersion: retry-policy.dev/v1alpha1, kind: RetryPolicy, profiles: {default: {retries: {limit: 2}}}}"
NAMESPACES = "/api/v1/namespaces"
JOBS = "/apis/batch/v1/jobs"


class Connected(Lists):
    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


def checked(monkeypatch: pytest.MonkeyPatch, folder: Path, *arguments: str, **lists: list[Json] | ApiError) -> Result:
    paths = {"policy": CONFIG_MAPS, "namespaces": NAMESPACES, "jobs": JOBS}
    found: dict[str, list[Json] | ApiError] = {
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions": [],
        NAMESPACES: [namespace_of("ml", profile="default")],
        CONFIG_MAPS: [],
        **{paths[name]: one for name, one in lists.items()},
    }

    async def connect(_: str) -> Connected:
        return Connected(found)

    monkeypatch.setattr(Api, "connect", connect)
    (folder / "config").touch()
    return CliRunner().invoke(check, ["--cluster", *arguments, f"--kubeconfig={folder / 'config'}"])


def stored_job(limit: int) -> Json:
    return stored(job(job_spec(backoffLimit=limit)))


@pytest.mark.parametrize(
    ("jobs", "code"),
    [([stored_job(0)], 0), ([stored_job(3)], 0), ([stored_job(25)], 1), (ApiError(403, "forbidden"), 2)],
)
def test_the_exit_code_shows_whether_objects_would_be_denied_or_could_not_be_read(
    jobs: list[Json] | ApiError, code: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = checked(monkeypatch, tmp_path, jobs=jobs)
    assert found.exit_code == code, found.output


def test_the_table_goes_to_stdout_and_errors_of_reading_go_to_stderr(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = checked(monkeypatch, tmp_path, policy=[{"data": {"policy.yaml": STRICT}}], jobs=ApiError(403, "forbidden"))
    assert (
        found.stdout == "0 objects: 0 would be denied, 0 changed, 0 admitted with a warning, 0 admitted as they are\n"
    )
    assert found.stderr == "jobs.batch cannot be listed: 403 forbidden\n"


def test_the_option_names_prints_the_name_of_each_object(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    jobs = [stored({**job(job_spec(backoffLimit=25)), "metadata": {"name": name}}) for name in ("a25", "b25")]
    assert "ml/job/a25 and 1 more " in checked(monkeypatch, tmp_path, jobs=jobs).stdout
    named = checked(monkeypatch, tmp_path, "--names", jobs=jobs).stdout
    assert [line.split()[1] for line in named.splitlines()[1:3]] == ["ml/job/a25", "ml/job/b25"]


def test_objects_are_judged_by_the_policy_in_the_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = checked(monkeypatch, tmp_path, policy=[{"data": {"policy.yaml": STRICT}}], jobs=[stored_job(3)])
    assert "3 retries exceed the limit of 2" in found.stdout
    assert (found.exit_code, found.stderr) == (1, "")


def test_without_a_policy_in_the_cluster_the_packaged_one_is_used_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = checked(monkeypatch, tmp_path, jobs=[stored_job(25)])
    assert "limit of 10" in found.stdout
    what = "there is no policy in ConfigMap retry-policy-system/retry-policy: judged by the packaged policy"
    assert found.stderr == f"warning: {what}; name another with --policy FILE\n"


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (ApiError(403, "forbidden"), "cannot be read: 403 forbidden; ask for the right to get configmaps/retry-"),
        (ApiError(500, "slow"), "cannot be read: 500 slow; name one with --policy FILE"),
        ([{"data": {"policy.yaml": "profiles: 3"}}], "has problems: "),
        ([{"data": {"policy.yaml": TOO_MANY_CODES}}], "has problems: "),
    ],
)
def test_an_unusable_policy_in_the_cluster_ends_the_check(
    policy: list[Json] | ApiError, said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = checked(monkeypatch, tmp_path, policy=policy)
    assert (found.exit_code, found.stdout) == (2, "")
    assert f"the policy in ConfigMap retry-policy-system/retry-policy {said}" in found.stderr


def test_a_policy_file_is_used_instead_of_the_policy_in_the_cluster(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(STRICT)
    arguments = (f"--policy={file}",)
    found = checked(monkeypatch, tmp_path, *arguments, policy=ApiError(403, "forbidden"), jobs=[stored_job(3)])
    assert (found.exit_code, found.stderr) == (1, "")


def test_a_profile_that_the_policy_does_not_have_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = checked(monkeypatch, tmp_path, "--profile=gpu")
    assert found.exit_code == 2, found.output
    assert "the policy has no profile 'gpu'; it has: confirm, default" in found.stderr


@pytest.mark.parametrize(("fail_on", "code"), [("problem", 0), ("warning", 1)])
def test_a_warning_fails_the_check_if_the_user_asks_for_it(
    fail_on: str, code: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    warned = stored(lacking(job(job_spec(restart_policy="OnFailure", backoffLimit=3))))
    found = checked(monkeypatch, tmp_path, f"--fail-on={fail_on}", jobs=[warned])
    assert "1 admitted with a warning" in found.stdout
    assert found.exit_code == code, found.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--cluster", "-f", "-"], "--cluster and -f exclude each other; leave one out"),
        (["--cluster", "-o", "json"], "--cluster and -o exclude each other; leave one out"),
        (["-f", "-", "-n", "ml"], "name what is in a cluster; add --cluster"),
        (["-A"], "name what is in a cluster; add --cluster"),
        (["-f", "-", "--context", "lab"], "name what is in a cluster; add --cluster"),
    ],
)
def test_options_of_files_and_of_a_cluster_exclude_each_other(arguments: list[str], said: str) -> None:
    found = CliRunner().invoke(check, arguments)
    assert said in " ".join(found.stderr.split())
    assert found.exit_code == 2, found.output


def test_the_options_for_one_namespace_and_for_all_exclude_each_other() -> None:
    found = CliRunner().invoke(check, ["--cluster", "-n", "ml", "-A"])
    assert found.exit_code == 2, found.output
    assert "-n and -A exclude each other; leave one out" in found.stderr


def test_on_a_terminal_it_shows_how_many_objects_are_judged_if_it_takes_longer_than_a_second() -> None:
    terminal, report = Terminal(), Judgements()

    async def judge() -> None:
        progress = Progress(stream=terminal, clock=asyncio.get_running_loop().time)
        telling = asyncio.create_task(command.tell(report, progress))
        await asyncio.sleep(0.95)
        assert terminal.getvalue() == ""
        report.numbers["changed"] = 1200
        await asyncio.sleep(0.3)
        telling.cancel()
        await asyncio.wait([telling])

    virtual_time.run(judge())
    assert terminal.getvalue().startswith(f"{ERASE}1,200 objects judged")
    assert terminal.getvalue().endswith(ERASE)
