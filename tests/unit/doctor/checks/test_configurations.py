"""What the doctor finds about the two webhook configurations."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.doctor.healthy import VERSION, configuration, deployment, healthy, told, wrong
from webhook.doctor.checks.configurations import check
from webhook.doctor.shipped import MUTATING, NAMESPACE, VALIDATING
from webhook.objects.problem import Json


def changed(edit: Callable[[Json], Any]) -> list[Json]:
    """Return the mutating configuration after an edit of its webhooks, by name."""
    root = configuration(MUTATING)
    edit({hook["name"].partition(".")[0]: hook for hook in root["webhooks"]})
    return [root]


def test_nothing_is_wrong_with_the_shipped_configurations() -> None:
    assert wrong(check, healthy()) == []


@pytest.mark.parametrize(("kind", "field"), [(MUTATING, "mutating"), (VALIDATING, "validating")])
def test_a_configuration_that_is_missing_is_a_problem(kind: str, field: str) -> None:
    status, text, fix = told(check, healthy(**{field: []}))
    assert status == "problem"
    assert text.startswith(f"{kind} retry-policy-webhook: does not exist")
    assert fix.startswith("kubectl apply -k manifests/base")


def test_a_webhook_that_calls_another_service_is_a_problem() -> None:
    found = changed(lambda hooks: hooks["workloads"]["clientConfig"]["service"].update(namespace="other"))
    text = told(check, healthy(mutating=found))[1]
    assert f"calls other/retry-policy-webhook:443/mutate, and the server is {NAMESPACE}/retry-policy-webhook" in text


def test_a_service_without_a_port_has_that_of_https() -> None:
    found = changed(lambda hooks: hooks["workloads"]["clientConfig"]["service"].pop("port"))
    assert wrong(check, healthy(mutating=found)) == []


def test_a_url_in_place_of_the_service_is_a_warning() -> None:
    found = changed(lambda hooks: hooks["workloads"].update(clientConfig={"url": "https://127.0.0.1:1"}))
    status, text, _ = told(check, healthy(mutating=found))
    assert status == "warning"
    assert "calls https://127.0.0.1:1, and not the Service" in text


def test_a_webhook_that_was_removed_is_a_problem() -> None:
    root = configuration(MUTATING)
    root["webhooks"] = [hook for hook in root["webhooks"] if hook["name"] != "job-pods.retry-policy.dev"]
    assert "lacks the webhooks job-pods.retry-policy.dev" in told(check, healthy(mutating=[root]))[1]


def without_job_sets(hooks: Json) -> None:
    hooks["workloads"]["rules"] = [one for one in hooks["workloads"]["rules"] if "jobsets" not in one["resources"]]


@pytest.mark.parametrize(
    ("kinds", "status", "end"),
    [
        ({("jobset.x-k8s.io", "jobsets"): ["v1alpha2"]}, "problem", "which this cluster has"),
        ({}, "warning", "jobsets.jobset.x-k8s.io v1alpha2"),
    ],
)
def test_a_kind_that_is_left_out_is_a_problem_if_the_cluster_has_it(kinds: Json, status: str, end: str) -> None:
    found = told(check, healthy(mutating=changed(without_job_sets), kinds=kinds))
    assert found[0] == status
    assert "is not called for jobsets.jobset.x-k8s.io v1alpha2" in found[1]
    assert found[1].endswith(end)


def test_a_rule_that_was_added_is_a_warning() -> None:
    rule = {"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"], "operations": ["CREATE"]}
    found = changed(lambda hooks: hooks["workloads"]["rules"].append(rule))
    assert "is also called for deployments.apps v1" in told(check, healthy(mutating=found))[1]


@pytest.mark.parametrize(
    "edit",
    [
        {"timeoutSeconds": 30},
        {"namespaceSelector": {}},
        {"matchConditions": []},
        {"reinvocationPolicy": "Never"},
    ],
    ids=lambda edit: next(iter(edit)),
)
def test_a_field_that_differs_is_named(edit: Json) -> None:
    status, text, _ = told(check, healthy(mutating=changed(lambda hooks: hooks["workloads"].update(edit))))
    assert status == "warning"
    assert f"workloads.retry-policy.dev: {next(iter(edit))} differs from what version {VERSION} ships" in text


def test_the_overlay_fail_open_is_not_wrong() -> None:
    roots = [configuration(MUTATING), configuration(VALIDATING)]
    for hook in (hook for root in roots for hook in root["webhooks"]):
        hook["failurePolicy"] = "Ignore"
    snapshot = healthy(mutating=roots[:1], validating=roots[1:])
    assert wrong(check, snapshot) == []
    assert all("with failurePolicy Ignore" in one.what for one in check(snapshot))


def test_a_single_webhook_that_fails_open_is_a_warning() -> None:
    found = changed(lambda hooks: hooks["job-pods"].update(failurePolicy="Ignore"))
    text = told(check, healthy(mutating=found))[1]
    assert "failurePolicy is Ignore, shipped is Fail" in text


def test_the_webhook_of_requested_retries_must_be_there_if_the_server_runs_them() -> None:
    text = told(check, healthy(deployment=deployment("--requested-retries")))[1]
    assert "lacks the webhook requested-retries.retry-policy.dev" in text


def test_the_webhook_of_requested_retries_must_not_be_there_if_the_server_does_not_run_them() -> None:
    root = configuration(MUTATING)
    root["webhooks"].append({**root["webhooks"][0], "name": "requested-retries.retry-policy.dev"})
    status, text, _ = told(check, healthy(mutating=[root]))
    assert status == "problem"
    assert "so it answers 404" in text


def test_of_a_helm_release_an_upgrade_makes_webhooks_and_server_agree_about_requested_retries() -> None:
    root = deployment("--requested-retries", annotations={"meta.helm.sh/release-name": "policy"})
    upgrade = f"helm upgrade policy charts/retry-policy-webhook --namespace {NAMESPACE} --reset-then-reuse-values"
    assert told(check, healthy(deployment=root))[2] == upgrade
