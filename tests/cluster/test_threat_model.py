"""The admission policy in docs/explanation/threat-model.md, on a real API server."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.awaiting import until
from tests.documents import documents_of
from webhook.kube import names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.conftest import NewNamespace
    from tests.cluster.kubectl import Kubectl

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "threat-model.md"
TENANT = "--as=tenant"
REFUSED = "only cluster admins opt a namespace in or out of the retry policy"


@pytest.fixture
def tenant(kubectl: Kubectl) -> Iterator[None]:
    """Create a user `tenant` who may write Namespaces but is no admin."""
    for command in (
        ("create", "clusterrole", "tenant", "--verb=get,create,patch,update,delete", "--resource=namespaces"),
        ("create", "clusterrolebinding", "tenant", "--clusterrole=tenant", "--user=tenant"),
    ):
        assert kubectl.run(*command).returncode == 0
    yield
    kubectl.run("delete", "clusterrolebinding,clusterrole", "tenant")


@pytest.mark.usefixtures("tenant")
def test_the_documented_admission_policy_forbids_tenants_to_opt_out_and_nothing_else(
    kubectl: Kubectl, namespace: NewNamespace
) -> None:
    (text,) = re.findall(r"```yaml\n(apiVersion: admissionregistration.*?)```", PAGE.read_text(), re.DOTALL)
    name = namespace({names.PROFILE: "default"}).name

    def labels(*changes: str) -> str:
        result = kubectl.run(TENANT, "label", "--overwrite", "--dry-run=server", "namespace", name, *changes)
        return result.stderr if result.returncode else ""

    def creates(**with_labels: str) -> str:
        manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "new", "labels": with_labels}}
        result = kubectl.run(TENANT, "create", "--dry-run=server", "-f", "-", stdin=manifest)
        return result.stderr if result.returncode else ""

    assert labels(f"{names.PROFILE}-") == ""  # without the policy a tenant can opt out
    try:
        for manifest in documents_of(text):
            kubectl.create(manifest)
        until(lambda: REFUSED in labels(f"{names.PROFILE}-"))
        assert REFUSED in labels(f"{names.PROFILE}=other")
        assert REFUSED in labels(f"{names.MODE}=Audit")
        assert labels("team=a") == ""
        assert creates(team="a") == ""
        assert creates() == ""
        assert REFUSED in creates(**{names.PROFILE: "default"})
        by_admin = kubectl.run("label", "--dry-run=server", "namespace", name, f"{names.PROFILE}-")
        assert by_admin.returncode == 0
    finally:
        kubectl.run("delete", "validatingadmissionpolicybinding,validatingadmissionpolicy", "retry-policy-opt-out")
