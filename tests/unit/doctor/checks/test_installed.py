"""What the doctor finds about Deployment, pods, endpoints and second installations."""

from copy import deepcopy
from typing import Any

import pytest

from tests.unit.doctor.healthy import VERSION, configuration, controller, deployment, healthy, pod, told, wrong
from webhook.doctor.checks.installed import check
from webhook.doctor.shipped import CONTROLLER, MUTATING, NAME, NAMESPACE
from webhook.objects.problem import Json


def test_nothing_is_wrong_with_a_healthy_installation() -> None:
    assert wrong(check, healthy()) == []


def test_an_empty_cluster_has_one_problem_and_the_command_that_installs() -> None:
    status, text, fix = told(check, healthy(mutating=[], validating=[], deployments=[]))
    assert status == "problem"
    assert "is not installed" in text
    assert fix.startswith(
        "helm install retry-policy-webhook charts/retry-policy-webhook --namespace retry-policy-system"
    )
    assert fix.endswith("# without Helm: kubectl apply -k manifests/base")


def test_a_deployment_that_was_deleted_is_a_problem() -> None:
    _, text, _ = told(check, healthy(deployment={}, deployments=[]))
    assert text.startswith(f"Deployment {NAMESPACE}/{NAME}: does not exist")


def test_a_second_deployment_is_a_problem_and_is_deleted() -> None:
    second = deployment(namespace="batch")
    status, text, fix = told(check, healthy(deployments=[deployment(), second]))
    assert status == "problem"
    assert "second installation" in text
    assert fix == f"kubectl -n batch delete deployment {NAME}"


def test_a_configuration_of_another_name_with_our_webhooks_is_a_second_installation() -> None:
    second = configuration(MUTATING)
    second["metadata"]["name"] = "batch-policy"
    _, text, fix = told(check, healthy(mutating=[configuration(MUTATING), second]))
    assert "MutatingWebhookConfiguration batch-policy: belongs to a second installation" in text
    assert fix == "kubectl delete mutatingwebhookconfiguration batch-policy"


def test_another_version_than_that_of_the_command_line_is_a_warning() -> None:
    found = wrong(check, healthy(version="9.0.0"))
    assert [one.where.rpartition("/")[2] for one in found] == [NAME, CONTROLLER]
    status, text, fix = found[0].status, found[0].what, found[0].fix
    assert status == "warning"
    assert f"runs version {VERSION}, and this command line is version 9.0.0" in text
    assert fix == f"pip install retry-policy-webhook=={VERSION}"


def test_a_kubernetes_that_is_too_old_is_a_problem() -> None:
    assert "is v1.29.4; the webhook needs 1.30" in told(check, healthy(server_version="v1.29.4"))[1]


@pytest.mark.parametrize(
    ("wanted", "ready", "status", "what", "fix"),
    [
        (0, 0, "problem", "is scaled to 0 replicas", "scale deployment/retry-policy-webhook --replicas=2"),
        (2, 0, "problem", "has no ready replica of 2", "events --types=Warning"),
        (2, 1, "warning", "has 1 ready of 2 replicas", "describe deployment"),
    ],
)
def test_replicas_that_are_missing_are_counted(wanted: int, ready: int, status: str, what: str, fix: str) -> None:
    found = told(check, healthy(deployment=deployment(wanted=wanted, ready=ready)))
    assert found[0] == status
    assert what in found[1]
    assert fix in found[2]


@pytest.mark.parametrize(
    ("failure_policy", "what"),
    [("Fail", "are refused"), ("Ignore", "are stored as their authors wrote them (failurePolicy Ignore)")],
)
@pytest.mark.parametrize("wanted", [0, 2])
def test_what_happens_to_jobs_without_replicas_depends_on_the_failure_policy(
    wanted: int, failure_policy: str, what: str
) -> None:
    root = configuration(MUTATING)
    for hook in root["webhooks"]:
        hook["failurePolicy"] = failure_policy
    text = told(check, healthy(deployment=deployment(wanted=wanted, ready=0), mutating=[root]))[1]
    assert text.endswith(f"Jobs in opted-in namespaces {what}")


def test_without_replicas_and_webhooks_no_policy_applies() -> None:
    found = wrong(check, healthy(deployment=deployment(wanted=0, ready=0), mutating=[], slices=None))
    assert "no policy applies" in found[0].what


def test_without_ready_replicas_the_command_is_about_a_pod_that_is_not_ready() -> None:
    pods = [pod("pod-0", CRASHING), pod("pod-1", CRASHING)]
    found = wrong(check, healthy(deployment=deployment(wanted=2, ready=0), pods=pods, slices=[]))
    by_place = {one.where.partition(" ")[0]: one.fix for one in found}
    assert by_place["Deployment"] == by_place["Service"] == f"kubectl -n {NAMESPACE} logs pod-0 --previous"


def test_with_0_replicas_endpoints_come_back_with_the_replicas() -> None:
    found = wrong(check, healthy(deployment=deployment(wanted=0, ready=0), pods=[], slices=[]))
    assert [one.where.partition(" ")[0] for one in found] == ["Deployment", "Service"]
    assert found[0].fix == found[1].fix == f"kubectl -n {NAMESPACE} scale deployment/{NAME} --replicas=2"


WAITING: Any = {"containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}}]}
CRASHING: Any = {"containerStatuses": [{"state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}
UNSCHEDULED: Any = {"conditions": [{"type": "PodScheduled", "status": "False", "message": "0/3 nodes"}]}


@pytest.mark.parametrize(
    ("status", "what", "command"),
    [
        (WAITING, "ImagePullBackOff: not found", "describe pod pod-1"),
        (CRASHING, "CrashLoopBackOff", "logs pod-1 --previous"),
        (UNSCHEDULED, "not scheduled: 0/3 nodes", "describe pod pod-1"),
        ({}, "its log says why", "logs pod-1 --tail=50"),
    ],
)
def test_a_pod_that_is_not_ready_has_its_reason(status: Json, what: str, command: str) -> None:
    found = told(check, healthy(pods=[pod("pod-0"), pod("pod-1", status)]))
    assert what in found[1]
    assert found[2] == f"kubectl -n {NAMESPACE} {command}"


def test_the_newest_event_of_a_pod_says_why_it_is_not_ready() -> None:
    involved = {"kind": "Pod", "name": "pod-1"}
    events = [
        {"involvedObject": involved, "reason": "Unhealthy", "message": message, "lastTimestamp": time}
        for time, message in (("2026-11-23T11:00:00Z", "old"), ("2026-11-23T11:59:00Z", "no policy in force"))
    ]
    _, text, _ = told(check, healthy(pods=[pod("pod-1", {})], events=events))
    assert text.endswith("is not ready: Unhealthy: no policy in force")


def test_what_a_container_waits_for_is_said_before_the_last_event() -> None:
    event = {"involvedObject": {"kind": "Pod", "name": "pod-1"}, "reason": "MissingClusterDNS", "message": "no DNS"}
    _, text, _ = told(check, healthy(pods=[pod("pod-1", WAITING)], events=[event]))
    assert text.endswith("is not ready: ImagePullBackOff: not found")


def test_a_service_without_endpoints_is_a_problem_although_pods_are_ready() -> None:
    status, text, fix = told(check, healthy(slices=[{"endpoints": [{"conditions": {"ready": False}}]}]))
    assert status == "problem"
    assert "no ready endpoint" in text
    assert "although 2 pods are ready" in text
    assert "get endpointslices" in fix


def test_a_selector_that_matches_no_pod_is_named() -> None:
    services = deepcopy(healthy().services)
    assert services
    services[0]["spec"]["selector"] = {"app": "webhook"}
    assert "its selector app=webhook matches no pod" in told(check, healthy(services=services, slices=[]))[1]


def test_a_service_that_does_not_exist_is_a_problem() -> None:
    assert "Service retry-policy-system/retry-policy-webhook: does not exist" in told(check, healthy(services=[]))[1]


def test_the_endpoints_do_not_matter_if_the_api_server_calls_a_url() -> None:
    root = configuration(MUTATING)
    for hook in root["webhooks"]:
        hook["clientConfig"] = {"url": "https://127.0.0.1:1/mutate"}
    assert wrong(check, healthy(mutating=[root], validating=[], slices=[])) == []


def test_what_could_not_be_read_is_not_judged() -> None:
    assert wrong(check, healthy(services=None, slices=None, pods=None, deployments=None, deployment={})) == []


def test_a_controller_that_is_absent_or_not_ready_is_a_problem_although_admission_goes_on() -> None:
    snapshot = healthy(controller={})
    snapshot.deployments = [deployment()]
    status, text, _ = told(check, snapshot)
    assert status == "problem"
    assert f"Deployment {NAMESPACE}/{CONTROLLER}: does not exist: no end is counted" in text
    stopped = controller()
    stopped["spec"]["replicas"] = 0
    status, text, fix = told(check, healthy(controller=stopped))
    assert "is scaled to 0 replicas: no end is counted" in text
    assert fix.endswith(f"scale deployment/{CONTROLLER} --replicas=2")
