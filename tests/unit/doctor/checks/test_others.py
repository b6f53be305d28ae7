"""What the doctor finds about the webhooks of other programs."""

import json
from typing import Any

import pytest

from tests.unit.doctor.healthy import configuration, healthy, told, wrong
from webhook.doctor.checks.others import check
from webhook.doctor.shipped import MUTATING
from webhook.objects.problem import Json

USERNAME = "system:serviceaccount:retry-policy-system:retry-policy-controller"
PODS = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
JOBS = {"apiGroups": ["batch"], "apiVersions": ["v1"], "resources": ["jobs"]}


def other(name: str, rule: Json, *operations: str, hook: str = "x.example.com", **fields: Any) -> Json:
    rules = [{**rule, "operations": list(operations)}]
    return {"metadata": {"name": name}, "webhooks": [{"name": hook, "rules": rules, **fields}]}


def beside(*others: Json, **changes: Any) -> Any:
    return healthy(mutating=[configuration(MUTATING), *others], **changes)


def test_a_webhook_that_sees_only_new_pods_is_listed_and_not_wrong() -> None:
    (found,) = check(beside(other("istio-sidecar-injector", PODS, "CREATE")))
    assert found.status == "ok"
    assert "istio-sidecar-injector: x.example.com (Istio)" in found.what


def test_a_webhook_for_other_namespaces_is_not_listed() -> None:
    elsewhere = {"matchLabels": {"team": "web"}}
    (found,) = check(beside(other("mutator", PODS, "CREATE", "UPDATE", namespaceSelector=elsewhere)))
    assert found.what == "none sees Jobs or pods of opted-in namespaces"


@pytest.mark.parametrize("conditions", [None, [{"name": "a", "expression": "true"}]])
def test_a_webhook_that_is_called_for_updates_by_the_server_is_a_warning_with_a_patch(conditions: Any) -> None:
    fields = {} if conditions is None else {"matchConditions": conditions}
    status, text, fix = told(check, beside(other("mutator", JOBS, "UPDATE", **fields)))
    assert status == "warning"
    assert "is called for updates of jobs by the server: if it changes one, the update is denied" in text
    (operation,) = json.loads(fix.partition(" -p '")[2].removesuffix("'"))
    assert operation["path"] == "/webhooks/0/matchConditions" + ("" if conditions is None else "/-")
    assert USERNAME in json.dumps(operation["value"])


def test_a_webhook_that_excludes_the_server_is_not_wrong() -> None:
    conditions = [{"name": "not-ours", "expression": f"request.userInfo.username != '{USERNAME}'"}]
    assert wrong(check, beside(other("mutator", JOBS, "*", matchConditions=conditions))) == []


def test_the_webhooks_of_job_set_are_not_wrong() -> None:
    rule = {"apiGroups": ["jobset.x-k8s.io"], "apiVersions": ["v1alpha2"], "resources": ["jobsets"]}
    assert wrong(check, beside(other("jobset-mutating-webhook-configuration", rule, "CREATE", "UPDATE"))) == []


@pytest.mark.parametrize(
    ("name", "reinvocation", "number"),
    [("zz-kueue", "Never", 1), ("zz-kueue", "IfNeeded", 0), ("kueue-mutating", "Never", 0)],
)
def test_kueue_must_not_come_last_unless_this_webhook_is_called_again(
    name: str, reinvocation: str, number: int
) -> None:
    own = configuration(MUTATING)
    for hook in own["webhooks"]:
        hook["reinvocationPolicy"] = reinvocation
    found = wrong(check, healthy(mutating=[own, other(name, JOBS, "CREATE", hook="mjob.kb.io")]))
    assert len(found) == number


def test_a_mutating_admission_policy_on_updates_is_a_warning() -> None:
    constraints = {"resourceRules": [{**PODS, "operations": ["*"]}]}
    policy = {"metadata": {"name": "defaults"}, "spec": {"matchConstraints": constraints}}
    status, text, fix = told(check, healthy(mutating_policies=[policy]))
    assert status == "warning"
    assert text.startswith("MutatingAdmissionPolicy defaults: is applied to updates of pods")
    assert USERNAME in fix
