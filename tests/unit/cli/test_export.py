"""The output of `retry-policy export`."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.documents import documents_of
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
    documents = [one for one in documents_of(done.stdout) if one]
    as_json = json.loads(CliRunner().invoke(export, ["--policy", "policy.yaml", "-o", "json"]).stdout)
    assert as_json["items"] == documents
    assert done.exit_code == 0


def test_a_policy_with_problems_is_not_exported() -> None:
    Path("policy.yaml").write_text(POLICY.replace("4", "40"))
    done = CliRunner().invoke(export, ["--policy", "policy.yaml"])
    assert (done.exit_code, done.stdout) == (2, "")
    assert "profiles.default.retries.limit" in done.stderr
