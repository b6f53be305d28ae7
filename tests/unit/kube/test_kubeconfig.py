"""Several kubeconfig files are read as kubectl reads them."""

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from webhook.kube.kubeconfig import Kubeconfig, contexts


def written(file: Path, current: str | None, namespaces: dict[str, str | None]) -> str:
    """Write a kubeconfig with a context for each namespace; return its path."""
    listed = [
        {"name": name, "context": {"cluster": name, **({} if namespace is None else {"namespace": namespace})}}
        for name, namespace in namespaces.items()
    ]
    content: dict[str, Any] = {"apiVersion": "v1", "kind": "Config", "contexts": listed}
    file.write_text(yaml.safe_dump(content if current is None else {**content, "current-context": current}))
    return str(file)


def test_the_first_file_with_a_current_context_decides(tmp_path: Path) -> None:
    files = [
        written(tmp_path / "a", None, {"lab": "ml"}),
        written(tmp_path / "b", "lab", {"lab": "other", "prod": "web"}),
        written(tmp_path / "c", "prod", {}),
    ]
    found = contexts(os.pathsep.join([*files, "", "/absent"]))
    assert found.current == "lab"
    assert found.namespaces == {"lab": "ml", "prod": "web"}


def test_a_context_without_a_namespace_means_default(tmp_path: Path) -> None:
    found = contexts(written(tmp_path / "a", "lab", {"lab": None, "prod": "web"}))
    assert [found.namespace(name) for name in (None, "prod", "absent")] == ["default", "web", "default"]


def test_without_a_file_the_namespace_is_default() -> None:
    assert contexts("/absent").namespace(None) == "default"


@pytest.mark.parametrize("text", ["a: [", "- a", "5"])
def test_a_file_that_is_no_kubeconfig_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "a").write_text(text)
    with pytest.raises(ValueError, match=f"^{tmp_path}/a is n"):
        contexts(str(tmp_path / "a"))


@pytest.mark.parametrize("listed", ["contexts: 5", "contexts: [5, {name: 5}, {name: a, context: 5}]", ""])
def test_values_of_other_types_are_passed_over(tmp_path: Path, listed: str) -> None:
    (tmp_path / "a").write_text(f"current-context: 5\n{listed}\n")
    assert contexts(str(tmp_path / "a")).current is None


def test_without_an_option_the_files_are_those_of_the_environment_or_of_the_home(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KUBECONFIG", "/a:/b")
    assert (Kubeconfig("/c").paths, Kubeconfig().paths) == ("/c", "/a:/b")
    monkeypatch.delenv("KUBECONFIG")
    monkeypatch.setenv("HOME", "/home/ann")
    assert Kubeconfig().paths == "/home/ann/.kube/config"
