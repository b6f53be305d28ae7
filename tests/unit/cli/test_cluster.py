"""Which kubeconfig a command uses, and what it prints if the cluster gives no answer."""

import asyncio
import errno
from pathlib import Path
from socket import gaierror
from typing import Final, cast

import pytest
from aiohttp import ClientConnectorError
from aiohttp.client_reqrep import ConnectionKey

from webhook.cli import cluster
from webhook.cli.console import object_argument
from webhook.kube.client import Api, ApiError, NoCredentialsError
from webhook.kube.kubeconfig import Kubeconfig
from webhook.objects.problem import Json
from webhook.systems.job.spec import CRON_JOB, JOB

ROWS = (JOB, CRON_JOB)


KEY: Final = ConnectionKey("127.0.0.1", 1, is_ssl=True, ssl=True, proxy=None, proxy_auth=None, proxy_headers_hash=None)


@pytest.fixture
def file(tmp_path: Path) -> str:
    found = tmp_path / "config"
    found.touch()
    return str(found)


def test_the_kubeconfig_is_the_one_that_kubectl_would_use(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/from/environment")
    assert cluster.kubeconfig_or_default(Kubeconfig(file)).files == file
    monkeypatch.setenv("KUBECONFIG", f"/absent:{file}")
    assert cluster.kubeconfig_or_default(Kubeconfig()).files == f"/absent:{file}"
    monkeypatch.delenv("KUBECONFIG")
    monkeypatch.setenv("HOME", str(Path(file).parent))
    (Path(file).parent / ".kube").mkdir()
    (Path(file).parent / ".kube" / "config").touch()
    assert cluster.kubeconfig_or_default(Kubeconfig()).files == f"{Path(file).parent}/.kube/config"


def test_the_context_is_the_one_that_kubectl_would_use(file: str) -> None:
    Path(file).write_text("{current-context: lab, contexts: [{name: lab}, {name: prod}]}")
    Path(f"{file}-2").write_text("{current-context: prod}")
    both = f"{file}:{file}-2"
    assert cluster.kubeconfig_or_default(Kubeconfig(both)) == Kubeconfig(both, "lab")
    assert cluster.kubeconfig_or_default(Kubeconfig(both, "prod")) == Kubeconfig(both, "prod")


def test_the_cluster_is_that_of_the_context(file: str) -> None:
    Path(file).write_text("{current-context: a, contexts: [{name: a, context: {cluster: lab, user: me}}, {name: b}]}")
    assert cluster.kubeconfig_or_default(Kubeconfig(file)).cluster == "lab"
    assert cluster.kubeconfig_or_default(Kubeconfig(file, "b")).cluster == ""


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("contexts: [{name: prod}, {name: lab}]", "kubeconfig FILE: there is no context 'labs'; it has: lab, prod\n"),
        ("", "kubeconfig FILE: there is no context 'labs'; it has: none\n"),
        ("- a", "kubeconfig FILE is no kubeconfig: must hold a mapping; name another with --kubeconfig\n"),
    ],
)
def test_a_context_that_cannot_be_used_is_an_error(
    file: str, content: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(file).write_text(content)
    with pytest.raises(SystemExit) as ended:
        cluster.kubeconfig_or_default(Kubeconfig(file, "labs"))
    assert ended.value.code == 2
    assert capsys.readouterr().err.replace(file, "FILE") == said


def test_a_context_without_a_user_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "config"
    file.write_text("{current-context: a, contexts: [{name: a, context: {cluster: c}}, {name: b, context: {user: u}}]}")
    with pytest.raises(SystemExit) as ended:
        cluster.kubeconfig_or_default(Kubeconfig(str(file)))
    assert ended.value.code == 2
    what = "the context 'a' names no user; add one: kubectl config set-context a --user=NAME"
    assert capsys.readouterr().err == f"kubeconfig {file}: {what}\n"
    assert cluster.kubeconfig_or_default(Kubeconfig(str(file), "b")).context == "b"


def test_a_kubeconfig_that_does_not_exist_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cluster.kubeconfig_or_default(Kubeconfig("/absent"))
    assert ended.value.code == 2
    assert capsys.readouterr().err == "kubeconfig /absent: file does not exist; name another with --kubeconfig\n"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ApiError(401, "Unauthorized"), "the API server refused the request: 401 Unauthorized\n"),
        (
            NoCredentialsError("ConfigException: no server"),
            "the cluster of FILE cannot be reached: ConfigException: no server; name another with --kubeconfig\n",
        ),
        (
            TimeoutError(),
            "the cluster of FILE cannot be reached: TimeoutError(); name another with --kubeconfig\n",
        ),
        (
            ClientConnectorError(KEY, OSError(errno.ECONNREFUSED, "Connect call failed ('127.0.0.1', 1)")),
            "the cluster of FILE cannot be reached: 127.0.0.1:1: Connection refused; name another with --kubeconfig\n",
        ),
        (
            ClientConnectorError(KEY, gaierror(-2, "Name not known")),
            "the cluster of FILE cannot be reached: 127.0.0.1:1: Name not known; name another with --kubeconfig\n",
        ),
    ],
)
def test_a_failed_request_prints_one_line_with_the_reason_and_exits_with_2(
    error: Exception, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async def work() -> None:
        raise error

    with pytest.raises(SystemExit) as ended:
        cluster.ask(Kubeconfig("FILE"), work())
    assert ended.value.code == 2
    assert capsys.readouterr().err == said


class Stored:
    """An API with at most one object of each resource, `train` in namespace ml, or with an error."""

    def __init__(self, found: dict[str, Json | ApiError]) -> None:
        self.found = found

    async def find(self, path: str) -> Json | None:
        resource, name = path.removeprefix("/apis/batch/v1/namespaces/ml/").partition("/")[::2]
        if not name:
            return {}  # the list
        one = self.found.get(resource)
        if isinstance(one, ApiError):
            raise one
        return one


def found(text: str, **objects: Json | ApiError) -> str:
    return asyncio.run(cluster.find(cast("Api", Stored(objects)), object_argument(text, ROWS), ROWS))[0].kind


def test_without_a_kind_the_kind_that_has_an_object_of_that_name_is_used() -> None:
    forbidden = ApiError(403, "forbidden")
    assert found("ml/train", jobs={}) == "Job"
    assert found("ml/train", cronjobs={}, jobs=forbidden) == "CronJob"
    assert found("ml/cronjob/train", cronjobs={}, jobs={}) == "CronJob"


def test_if_several_kinds_have_the_name_the_error_says_what_to_write() -> None:
    with pytest.raises(cluster.NotOneError) as error:
        found("ml/train", jobs={}, cronjobs={})
    assert str(error.value) == "several objects are named ml/train; write ml/job/train or ml/cronjob/train"


def test_if_no_kind_has_the_name_the_error_says_how_to_list_objects() -> None:
    with pytest.raises(cluster.NotOneError) as error:
        found("ml/train", jobs=ApiError(403, "forbidden"))
    assert str(error.value) == (
        "there is no Job or CronJob ml/train that you may read; "
        "write NAMESPACE/KIND/NAME, and list what there is: kubectl get -n ml jobs,cronjobs"
    )


def test_if_the_named_kind_has_no_such_object_the_error_says_how_to_list_them() -> None:
    with pytest.raises(cluster.NotOneError, match="Job ml/train does not exist; list them"):
        found("ml/job/train")


def test_another_error_of_the_api_server_is_raised() -> None:
    with pytest.raises(ApiError, match="500 etcd is away"):
        found("ml/train", jobs=ApiError(500, "etcd is away"))
