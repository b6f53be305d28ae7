"""The output of `retry-policy export`."""

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from webhook.cli.export import export

pytestmark = pytest.mark.usefixtures("in_a_folder")

POLICY = """
apiVersion: retry-policy.dev/v1alpha1
kind: RetryPolicy
profiles:
  default: {retries: {limit: 4}}
"""


def test_yaml_and_json_have_the_same_objects() -> None:
    Path("policy.yaml").write_text(POLICY)
    done = CliRunner().invoke(export, ["--policy", "policy.yaml"])
    documents = [one for one in yaml.safe_load_all(done.stdout) if one]
    as_json = json.loads(CliRunner().invoke(export, ["--policy", "policy.yaml", "-o", "json"]).stdout)
    assert as_json["items"] == documents
    assert done.exit_code == 0


def test_what_is_not_exported_is_on_stderr_and_at_the_top_of_the_yaml() -> None:
    done = CliRunner().invoke(export)
    lines = done.stderr.splitlines()
    assert lines
    assert all(line.startswith("not exported: ") for line in lines)
    assert [line.removeprefix("# ") for line in done.stdout.split("---")[0].splitlines()][1:] == lines


def test_a_terminal_shows_once_what_is_not_exported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webhook.cli.export.is_for_people", lambda: True)
    done = CliRunner().invoke(export)
    assert not done.stderr
    assert "# not exported: " in done.stdout
    assert "not exported: " in CliRunner().invoke(export, ["-o", "json"]).stderr


def test_the_version_of_kubernetes_decides_what_is_exported() -> None:
    old = CliRunner().invoke(export, ["--kubernetes-version", "v1.33.2"])
    assert "MutatingAdmissionPolicy\n" not in old.stdout
    assert "nothing is set, only limits hold" in old.stderr
    middle = CliRunner().invoke(export, ["--kubernetes-version", "1.34"])
    assert "apiVersion: admissionregistration.k8s.io/v1beta1" in middle.stdout
    assert "--feature-gates=MutatingAdmissionPolicy=true" in middle.stderr


@pytest.mark.parametrize(
    ("version", "error"), [("1.30", "upgrade to 1.33 or newer"), ("new", "write one such as 1.36")]
)
def test_a_version_of_kubernetes_that_cannot_be_used_is_an_error(version: str, error: str) -> None:
    done = CliRunner().invoke(export, ["--kubernetes-version", version])
    assert done.exit_code == 2
    assert error in done.stderr


def test_a_policy_with_problems_is_not_exported() -> None:
    Path("policy.yaml").write_text(POLICY.replace("4", "40"))
    done = CliRunner().invoke(export, ["--policy", "policy.yaml"])
    assert (done.exit_code, done.stdout) == (2, "")
    assert "profiles.default.retries.limit" in done.stderr
