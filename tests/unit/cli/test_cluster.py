"""Which kubeconfig a command takes, and what it prints if the cluster cannot be asked."""

from pathlib import Path

import pytest

from webhook.cli import cluster
from webhook.kube.client import ApiError, NoCredentialsError


@pytest.fixture
def file(tmp_path: Path) -> str:
    found = tmp_path / "config"
    found.touch()
    return str(found)


def test_the_kubeconfig_is_the_one_that_kubectl_would_take(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/from/environment")
    assert cluster.kubeconfig_or_default(file) == file
    monkeypatch.setenv("KUBECONFIG", f"/absent:{file}")
    assert cluster.kubeconfig_or_default(None) == f"/absent:{file}"
    monkeypatch.delenv("KUBECONFIG")
    monkeypatch.setenv("HOME", str(Path(file).parent))
    (Path(file).parent / ".kube").mkdir()
    (Path(file).parent / ".kube" / "config").touch()
    assert cluster.kubeconfig_or_default(None) == f"{Path(file).parent}/.kube/config"


def test_of_a_kubeconfig_that_does_not_exist_that_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cluster.kubeconfig_or_default("/absent")
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
    ],
)
def test_why_the_cluster_cannot_be_asked_is_a_sentence_and_exit_code_2(
    error: Exception, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async def work() -> None:
        raise error

    with pytest.raises(SystemExit) as ended:
        cluster.ask("FILE", work())
    assert ended.value.code == 2
    assert capsys.readouterr().err == said
