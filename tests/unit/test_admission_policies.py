"""Admission policies restrict every permission of the ServiceAccount; cluster tests show their effect."""

from itertools import product
from pathlib import Path
from typing import Final

import pytest

from certs import store
from tests.documents import documents_of
from tools.generate.written import NEVER, WRITTEN
from webhook.accounts import counting
from webhook.controller import app
from webhook.kube import names
from webhook.objects.problem import Json
from webhook.pods import outcomes
from webhook.pods.matching import POD_FAILURE_POLICY
from webhook.program.start import LEDGER_LEASE
from webhook.systems.job.rerun import NOT_IN_MANIFEST
from webhook.systems.trainer import progress
from webhook.tracking import certificates, state_key

MANIFESTS: Final = Path(__file__).parents[2] / "manifests"
FOLDERS: Final = (MANIFESTS / "base", MANIFESTS / "overlays" / "requested-retries")
DOCUMENTS: Final = [
    one for folder in FOLDERS for file in sorted(folder.glob("*.yaml")) for one in documents_of(file.read_text())
]
# The policies that restrict the ServiceAccount; protected-keys.yaml restricts all other users.
POLICIES: Final = {
    one["metadata"]["name"]: one["spec"]
    for folder in FOLDERS
    for one in documents_of((folder / "admission-policies.yaml").read_text())
    if one["kind"].endswith("AdmissionPolicy")
}
OPERATIONS: Final = {"create": "CREATE", "update": "UPDATE", "patch": "UPDATE", "delete": "DELETE"}
# The API server evaluates no policy for access reviews, and for finalizers it only checks permissions.
NOT_RESTRICTED: Final = {
    ("authorization.k8s.io", "subjectaccessreviews", "create"),
    ("batch", "cronjobs/finalizers", "update"),
}


def granted() -> set[tuple[str, str, str]]:
    """Return the group, the resource and the verb of every permission."""
    return {
        right
        for one in DOCUMENTS
        for rule in one.get("rules") or ()
        for right in product(rule["apiGroups"], rule["resources"], rule["verbs"])
    }


def restricted() -> set[tuple[str, str, str]]:
    """Return the group, the resource and the operation of every request that a policy judges."""
    return {
        one
        for spec in POLICIES.values()
        for rule in spec["matchConstraints"]["resourceRules"]
        for one in product(rule["apiGroups"], rule["resources"], rule["operations"])
    }


def test_every_permission_to_write_is_restricted_by_a_policy() -> None:
    writing = {right for right in granted() - NOT_RESTRICTED if right[2] not in {"get", "list", "watch"}}
    assert {(group, resource, OPERATIONS[verb]) for group, resource, verb in writing} - restricted() == set()


def test_no_policy_restricts_a_permission_that_no_role_grants() -> None:
    granted_operations = {(group, resource, OPERATIONS.get(verb)) for group, resource, verb in granted()}
    assert restricted() - granted_operations == set()


def test_no_role_grants_permissions_on_admission_policies() -> None:
    assert {resource for _, resource, _ in granted() if "polic" in resource or resource == "*"} == set()
    assert {group for group, _, _ in granted() if group == "*"} == set()


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_denies_and_applies_only_to_the_service_account(name: str) -> None:
    accounts = [one["metadata"] for one in DOCUMENTS if one["kind"] == "ServiceAccount"]
    (account,) = [one for one in accounts if one["name"] == "retry-policy-controller"]
    username = f"system:serviceaccount:{account['namespace']}:{account['name']}"
    bindings = [one["spec"] for one in DOCUMENTS if one["kind"].endswith("PolicyBinding")]
    spec = POLICIES[name]
    assert {"policyName": name, "validationActions": ["Deny"]} in bindings
    assert spec["failurePolicy"] == "Fail"
    assert [one["expression"] for one in spec["matchConditions"]] == [f"request.userInfo.username == '{username}'"]


@pytest.mark.parametrize("name", POLICIES)
def test_a_denial_names_its_user_and_is_not_a_conflict(name: str) -> None:
    for validation in POLICIES[name]["validations"]:
        assert validation["message"].startswith("retry-policy-controller may ")
        assert validation["reason"] == "Forbidden"  # 403: after 422 the server would assume that the object has changed


def test_every_key_is_listed_as_written_or_as_never_written_by_the_server() -> None:
    keys = {
        value
        for value in vars(names).values()
        if isinstance(value, str) and value.startswith(names.PREFIX) and value != names.PREFIX
    }
    written = {key for keys in WRITTEN.values() for key in keys.ours}
    keys -= {names.DELAY, names.STALLED}  # a scheduling gate, and a condition
    put = "into SETS of webhook/systems/job/rerun.py, or WRITTEN or NEVER in tools/generate/written.py"
    assert sorted(keys - written - NEVER) == [], f"put them {put}"
    assert sorted((written | NEVER) - keys) == [], f"not in webhook/kube/names.py: do not put them {put}"
    assert sorted(written & NEVER) == [], f"put them {put}: not into both"


def test_a_job_that_runs_again_begins_without_the_annotations_that_the_server_wrote_on_the_failed_one() -> None:
    lacking = {*WRITTEN["jobs"].set_annotations, *WRITTEN["jobs"].removed_annotations} - NOT_IN_MANIFEST
    assert sorted(lacking) == [], (
        "put them into KEPT in webhook/kube/names.py, or NOT_IN_MANIFEST in webhook/systems/job/rerun.py"
    )


def test_the_policies_use_the_same_names_as_the_server() -> None:
    own = str(POLICIES["retry-policy-webhook-own-namespace"]["validations"])
    assert f"'{certificates.SECRET}'" in own
    assert f"'{store.TYPE}'" in own
    assert f"'{state_key.SECRET}'" in own
    assert f"'{state_key.TYPE}'" in own
    assert f"['{LEDGER_LEASE}', '{app.RETRIES_LEASE}']" in own
    assert f"== '{names.COMPONENT}'" in str(POLICIES["retry-policy-webhook-events"]["validations"])
    limits = (counting.LIMIT_EXCEEDED, counting.FREE_TOO_OFTEN, counting.EVICTED_TOO_OFTEN)
    reasons = (POD_FAILURE_POLICY, *limits, counting.JOB_WIDE, outcomes.NEVER_STARTED, counting.NO_PROGRESS)
    assert str([*reasons]) in str(POLICIES["retry-policy-webhook-jobs"]["validations"]).replace("\\'", "'")
    assert str([*limits]) in str(POLICIES["retry-policy-webhook-jobset-status"]["variables"]).replace("\\'", "'")
    ends = f"['{outcomes.SPOT_UNAVAILABLE}', '{outcomes.NEVER_STARTED}']"
    assert f"['{outcomes.NODE_LOST}'] : {ends}" in str(POLICIES["retry-policy-webhook-pod-status"]["validations"])
    for policy, part in (("pods", "validations"), ("pod-status", "variables")):
        assert f"one.type == '{names.STALLED}'" in str(POLICIES[f"retry-policy-webhook-{policy}"][part])
    assert f"variable.name == '{progress.SERVER}'" in str(POLICIES["retry-policy-webhook-pod-status"]["variables"])
    assert f"gate.name != '{names.DELAY}'" in str(POLICIES["retry-policy-webhook-pods"]["validations"])


def test_the_webhooks_do_not_edit_the_servers_writes_to_existing_objects() -> None:
    (configuration,) = [one for one in DOCUMENTS if one["kind"] == "MutatingWebhookConfiguration"]
    (entry,) = [one for one in configuration["webhooks"] if one["name"] == "workloads.retry-policy.dev"]
    conditions: Json = {one["name"]: one["expression"] for one in entry["matchConditions"]}
    (held_by,) = {one["matchConditions"][0]["expression"] for one in POLICIES.values()}
    assert conditions["not-written-by-the-controller"] == (
        f"request.operation == 'CREATE' || {held_by.replace('==', '!=')}"
    )
