"""The shipped manifests on a real API server: it accepts them, and calls the webhooks for the right requests."""

from __future__ import annotations

import json
import os
import ssl
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.admission import review_of
from tests.awaiting import LONGEST, until
from tests.cluster import rights
from tests.cluster.conftest import OWN_CONTROL_PLANE, with_operators
from tests.cluster.installation import BASE, CONTROLLER_ACCOUNT, SERVICE_ACCOUNT, SYSTEM, built, pointed_at
from tests.cluster.manifests import job, job_set, pod, replicated_job
from tests.cluster.test_webhook_kinds import owner_of, reference
from tests.cluster.test_webhook_server import pod_of
from tests.documents import documents_of
from tests.served import Served, serving
from webhook.kube import names
from webhook.policy.parse import KEY
from webhook.systems.kinds import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.conftest import NewNamespace
    from tests.cluster.kubectl import Kubectl, Object
    from tests.cluster.namespace import Namespace

MANIFESTS = BASE.parent
OVERLAYS = MANIFESTS / "overlays"
NAME = "retry-policy-webhook"
POLICY = "retry-policy"
CONFIGURATIONS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
# API groups of operators that do not run here.
FOREIGN = ("cert-manager.io/", "monitoring.coreos.com/")
# The server uses these only if it manages its certificate, which tests/faults tests.
CERTIFICATES = {"secrets", "mutatingwebhookconfigurations", "validatingwebhookconfigurations"}


@pytest.fixture(scope="session")
def base(kubectl: Kubectl) -> list[Object]:
    return built(kubectl, BASE)


@pytest.fixture
def everything(tmp_path: Path, kubectl: Kubectl) -> list[Object]:
    """All overlays, combined in an admin's own kustomization with a policy and a registry."""
    overlays = os.path.relpath(OVERLAYS, tmp_path.resolve())
    own = {
        "resources": [f"{overlays}/cert-manager"],
        "components": [f"{overlays}/fail-open", f"{overlays}/prometheus", f"{overlays}/requested-retries"],
        "images": [{"name": NAME, "newName": f"registry.example/{NAME}"}],
        "configMapGenerator": [
            {
                "name": POLICY,
                "namespace": SYSTEM,
                "behavior": "replace",
                "files": [KEY],
                "options": {"disableNameSuffixHash": True},
            }
        ],
    }
    (tmp_path / "kustomization.yaml").write_text(json.dumps(own))
    (tmp_path / KEY).write_text((MANIFESTS / "samples" / "policy-gke.yaml").read_text())
    return built(kubectl, tmp_path)


def of_kind(kind: str, manifests: list[Object], name: str = "") -> Object:
    (found,) = [one for one in manifests if one["kind"] == kind and name in {"", one["metadata"]["name"]}]
    return deepcopy(found)


def check_accepted(kubectl: Kubectl, manifests: list[Object]) -> None:
    known = [one for one in manifests if not one["apiVersion"].startswith(FOREIGN)]
    strictly = ("apply", "--dry-run=server", "--validate=strict", "--filename=-")
    result = kubectl.run(*strictly, stdin=yaml.safe_dump_all(known))
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""  # no warning either: of pod security, of a deprecated field
    assert len(result.stdout.splitlines()) == len(known)


def test_the_api_server_accepts_every_base_manifest_with_strict_validation_and_no_warning(
    kubectl: Kubectl, base: list[Object]
) -> None:
    check_accepted(kubectl, base)


def test_the_api_server_accepts_all_overlays_combined(kubectl: Kubectl, everything: list[Object]) -> None:
    check_accepted(kubectl, everything)


@pytest.mark.parametrize("file", sorted(MANIFESTS.glob("samples/job*.yaml")), ids=lambda file: file.stem)
def test_the_api_server_accepts_every_sample_job(kubectl: Kubectl, file: Path) -> None:
    check_accepted(kubectl, documents_of(file.read_text()))


def test_the_overlays_can_be_combined_in_one_kustomization(everything: list[Object]) -> None:
    kinds = {one["kind"] for one in everything}
    assert kinds >= {"Issuer", "Certificate", "ServiceMonitor", "PrometheusRule"}
    container = of_kind("Deployment", everything, NAME)["spec"]["template"]["spec"]["containers"][0]
    assert container["image"].startswith(f"registry.example/{NAME}:")
    assert {"--tls-cert=/etc/retry-policy/tls/tls.crt", "--tls-key=/etc/retry-policy/tls/tls.key"} < {
        *container["args"]
    }
    certificates = {one["metadata"]["name"] for one in everything if one["kind"] == "Certificate"}
    for kind in CONFIGURATIONS:
        metadata = of_kind(kind, everything)["metadata"]
        namespace, _, certificate = metadata["annotations"]["cert-manager.io/inject-ca-from"].partition("/")
        assert namespace == SYSTEM
        assert certificate in certificates
    (policy,) = [one for one in everything if one["kind"] == "ConfigMap" and one["metadata"]["name"] == POLICY]
    assert "provider: gke" in policy["data"][KEY]


def test_the_overlay_fail_open_changes_only_the_failure_policy_of_the_base_webhooks(
    base: list[Object], everything: list[Object]
) -> None:
    for kind in CONFIGURATIONS:
        closed, opened = of_kind(kind, base)["webhooks"], of_kind(kind, everything)["webhooks"]
        assert "Fail" in {one["failurePolicy"] for one in closed}
        opened = [one for one in opened if one["name"] != "requested-retries.retry-policy.dev"]
        assert opened == [{**one, "failurePolicy": "Ignore"} for one in closed]


@pytest.mark.parametrize("kind", CONFIGURATIONS)
def test_the_api_server_stores_the_shipped_webhooks_without_adding_a_default(
    kubectl: Kubectl, base: list[Object], kind: str
) -> None:
    shipped = of_kind(kind, base)
    shipped["metadata"]["name"] = "another"
    stored = kubectl.create(shipped, "--dry-run=server")
    assert stored["webhooks"] == shipped["webhooks"]


@pytest.mark.parametrize("flags", [(), ("--server-side",)], ids=["client-side", "server-side"])
@pytest.mark.parametrize("kind", CONFIGURATIONS)
def test_an_injected_ca_bundle_stays_when_the_manifests_are_applied_again(
    kubectl: Kubectl, base: list[Object], namespace: NewNamespace, kind: str, flags: tuple[str, ...]
) -> None:
    shipped = of_kind(kind, base)
    shipped["metadata"]["name"] = namespace().name
    for webhook in shipped["webhooks"]:  # this copy matches no object
        webhook["namespaceSelector"] = webhook["objectSelector"] = {"matchLabels": {"retry-policy-test/no": "match"}}
    what = (kind, shipped["metadata"]["name"])
    number = len(shipped["webhooks"])
    injected = [
        {"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": "Y2E="} for index in range(number)
    ]
    try:
        kubectl.apply(shipped, *flags)
        patched = kubectl.run("patch", *what, "--type=json", "--field-manager=cainjector", "-p", json.dumps(injected))
        assert patched.returncode == 0, patched.stderr
        shipped["webhooks"][0]["timeoutSeconds"] = 4
        applied = kubectl.apply(shipped, *flags)["webhooks"]
    finally:
        kubectl.run("delete", *what)
    assert [one["clientConfig"]["caBundle"] for one in applied] == ["Y2E="] * number
    assert applied[0]["timeoutSeconds"] == 4


@pytest.mark.skipif(not OWN_CONTROL_PLANE, reason="its nodes would have to pull an image that nobody has published")
def test_the_deployments_pods_are_admitted_under_pod_security_restricted_and_run_on_different_nodes(
    kubectl: Kubectl,
) -> None:
    for deployment, component in ((NAME, "admission-webhook"), (CONTROLLER_ACCOUNT, "controller")):
        status = ("rollout", "status", f"deployment/{deployment}", f"--namespace={SYSTEM}", f"--timeout={LONGEST:g}s")
        rolled_out = kubectl.run(*status)
        assert rolled_out.returncode == 0, rolled_out.stderr
        selector = f"--selector=app.kubernetes.io/component={component}"
        running = kubectl.get("pods", f"--namespace={SYSTEM}", selector)["items"]
        assert len({one["spec"]["nodeName"] for one in running}) == len(running) == 2
        assert {one["spec"]["priorityClassName"] for one in running} == {"system-cluster-critical"}


def test_a_namespace_label_with_a_misspelt_profile_is_denied_with_the_right_spelling(
    kubectl: Kubectl, namespace: NewNamespace
) -> None:
    label = ("label", "namespace", namespace().name, "--overwrite")
    assert "label it default" in kubectl.run(*label, f"{names.PROFILE}=defualt").stderr
    assert kubectl.run(*label, f"{names.PROFILE}=default").returncode == 0


def test_an_invalid_policy_is_denied_with_the_path_of_each_problem(
    kubectl: Kubectl, base: list[Object], namespace: NewNamespace, tmp_path: Path
) -> None:
    team = namespace()
    policy = of_kind("ConfigMap", base)
    policy["metadata"] = {"name": POLICY, "namespace": team.name}
    kubectl.apply(policy)
    policy["data"][KEY] = policy["data"][KEY].replace("limit: 10", "limit: 11").replace("spot: Prefer", "spot: Perhaps")
    arguments = ("--kubeconfig", str(kubectl.kubeconfig), "--policy-configmap", f"{team.name}/{POLICY}")
    with serving(tmp_path, *arguments) as served:
        until(lambda: served.get("/readyz").status == 200)
        configuration = calling(served, of_kind(CONFIGURATIONS[1], base))
        with one_webhook_for(team, configuration, "policy.retry-policy.dev"):
            until(lambda: kubectl.run("apply", "--dry-run=server", "--filename=-", stdin=policy).returncode)
            refused = kubectl.run("apply", "--filename=-", stdin=policy).stderr
    assert "profiles.default.retries.limit" in refused
    assert "profiles.default.placement.spot" in refused


@pytest.mark.skipif(not OWN_CONTROL_PLANE, reason="another's API server shows webhooks no certificate of its own")
def test_with_a_client_ca_only_the_api_server_can_connect(
    kubectl: Kubectl, base: list[Object], namespace: NewNamespace, tmp_path: Path
) -> None:
    team = namespace({names.PROFILE: "default"})
    too_many = job("train", backoffLimit=25)
    authority = Path(os.environ["RETRY_POLICY_TEST_LOGS"]).with_name("credentials") / "ca.crt"
    arguments = ("--kubeconfig", str(kubectl.kubeconfig), "--client-ca", str(authority))
    with serving(tmp_path, *arguments) as served:
        until(lambda: served.get("/readyz").status == 200)
        with pytest.raises((ssl.SSLError, ConnectionError)):
            served.post("/validate", review_of(too_many, namespace=team.name))
        configuration = calling(served, of_kind(CONFIGURATIONS[1], base))
        with one_webhook_for(team, configuration, "workloads.retry-policy.dev"):
            until(lambda: denied_by(served, team, too_many))


def denied_by(served: Served, team: Namespace, manifest: Object) -> bool:
    """Create an object in a dry run; return True if this server has denied it, whether or not others have too."""
    team.refusal(manifest)
    return b'result="denied"} 1.0' in served.get("/metrics").body


def calling(served: Served, configuration: Object) -> Object:
    """Return a webhook configuration that calls a server with a self-made certificate."""
    return pointed_at(served.addresses["https"], configuration, Path(served.addresses["ca"]).read_bytes())


@contextmanager
def one_webhook_for(team: Namespace, configuration: Object, entry: str) -> Iterator[None]:
    """Create a copy of one webhook of a configuration for one namespace, while the block runs."""
    (webhook,) = [one for one in configuration["webhooks"] if one["name"] == entry]
    expressions = webhook["namespaceSelector"]["matchExpressions"]
    here = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": [team.name]}
    webhook["namespaceSelector"] = {
        "matchExpressions": [*(one for one in expressions if one["operator"] != "In"), here]
    }
    path = f"apis/{configuration['apiVersion']}/{configuration['kind'].lower()}s"
    team.api.create(path, {**configuration, "metadata": {"name": team.name}, "webhooks": [webhook]})
    try:
        yield
    finally:
        team.api.delete(f"{path}/{team.name}")


@dataclass(frozen=True, slots=True)
class Unreachable:
    """A webhook that cannot be reached, so that a request fails exactly if the API server calls it.

    Each method makes a request as a dry run, and returns True if the webhook was called.
    """

    team: Namespace
    entry: str

    def create(self, manifest: Object) -> bool:
        return self._is_called(self.team.refusal(manifest))

    def patch(self, path: str, **root: Any) -> bool:
        return self._is_called(self._refusal("PATCH", path, root))

    def delete(self, path: str) -> bool:
        return self._is_called(self._refusal("DELETE", path))

    def _refusal(self, method: str, path: str, body: Object | None = None) -> str:
        answer = self.team.api.send(method, path, body, dryRun="All")
        return str(answer["message"]) if answer.get("status") == "Failure" else ""

    def _is_called(self, refusal: str) -> bool:
        assert not refusal or f'failed calling webhook "{self.entry}"' in refusal
        return bool(refusal)


@contextmanager
def unreachable_webhook(team: Namespace, configuration: Object, entry: str) -> Iterator[Unreachable]:
    """Create a copy of one webhook that cannot be reached, while the block runs."""
    for webhook in configuration["webhooks"]:
        webhook |= {"clientConfig": {"url": "https://127.0.0.1:1/"}, "failurePolicy": "Fail"}
    with one_webhook_for(team, configuration, entry):
        yield Unreachable(team, entry)


@pytest.mark.parametrize("kind", CONFIGURATIONS)
def test_the_workload_webhook_is_called_for_new_objects_and_changes_of_spec_labels_or_annotations(
    base: list[Object], namespace: NewNamespace, kind: str
) -> None:
    team = namespace({names.PROFILE: "default"})
    held = job("held", suspend=True)
    held["metadata"] |= {"finalizers": ["retry-policy-test/hold"], "labels": {"a": "b"}}
    team.create(held)
    train, of_held = team.path_to("job/train"), team.path_to("job/held")
    team.create(job("train", suspend=True))
    team.delete("job/held")
    cron_job = {"schedule": "0 3 * * *", "jobTemplate": {"spec": job("x")["spec"]}}
    nightly = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "nightly"}, "spec": cron_job}
    with unreachable_webhook(team, of_kind(kind, base), "workloads.retry-policy.dev") as hook:
        until(lambda: hook.create(job("new")))
        assert hook.create(nightly)
        assert hook.patch(train, metadata={"labels": {"a": "b"}})
        assert hook.patch(train, metadata={"annotations": {"a": "b"}})
        assert hook.patch(train, spec={"parallelism": 2})
        assert not hook.patch(train, metadata={"finalizers": ["retry-policy-test/hold"]})
        assert not hook.patch(f"{train}/status", status={"failed": 1})
        assert not hook.delete(train)
        assert not hook.patch(of_held, metadata={"labels": {"a": "c"}})  # it is being deleted
        assert not hook.patch(of_held, metadata={"finalizers": None})
    team.patch("job/held", {"metadata": {"finalizers": None}})


@pytest.mark.parametrize(
    ("kind", "keys"),
    [(CONFIGURATIONS[0], (names.ATTEMPT, names.INTERRUPTIBLE)), (CONFIGURATIONS[1], names.SAID_BY_AUTHORS)],
    ids=CONFIGURATIONS,
)
def test_the_pod_webhook_is_called_for_a_new_pod_with_an_annotation_that_the_rules_read(
    base: list[Object], namespace: NewNamespace, kind: str, keys: tuple[str, ...]
) -> None:
    team = namespace({names.PROFILE: "default"})
    team.create(pod("there", {names.ATTEMPT: "1"}))
    with unreachable_webhook(team, of_kind(kind, base), "pods.retry-policy.dev") as hook:
        until(lambda: hook.create(pod("new", {names.ATTEMPT: "1"})))
        numbers = dict.fromkeys((names.ATTEMPT, names.MAX_RETRIES, names.MAX_DISRUPTIONS), "1")
        valid = {**numbers, names.MEMORY_LIMIT: "1Gi", names.ON_FAILURE: "Off"}
        valid |= {names.WORK: "1h", names.CHECKPOINT: "1h", names.DEADLINE: "2x"}
        needs = {names.CHECKPOINT: {names.WORK: "1h"}}
        for key in names.SAID_BY_AUTHORS:
            said = {key: valid.get(key, "true"), **needs.get(key, {})}
            assert hook.create(pod("new", said)) == (key in keys)
        assert hook.create(pod("new", {f"{names.PREFIX}interuptible": "true"})) == (kind == CONFIGURATIONS[1])
        assert not hook.create(pod("new"))
        assert not hook.create(pod("new", {"example.test/note": "x"}))
        assert not hook.patch(team.path_to("pod/there"), metadata={"annotations": {names.INTERRUPTIBLE: "true"}})


@pytest.mark.parametrize(
    ("kind", "kinds"),
    [(CONFIGURATIONS[0], {"of a run", "of a job with a selector of its own"}), (CONFIGURATIONS[1], set())],
    ids=CONFIGURATIONS,
)
def test_the_pod_webhooks_skip_pods_of_jobs_and_validation_skips_every_pod_with_a_controller(
    base: list[Object], namespace: NewNamespace, kind: str, kinds: set[str]
) -> None:
    team = namespace({names.PROFILE: "default"})
    owners = {
        "without a controller": owner("example.test/v1", "Run", controller=False),
        "of a run": owner("example.test/v1", "Run"),
        "of a job": owner("batch/v1", "Job"),
        "of a job with a selector of its own": owner("batch/v1", "Job"),
    }
    pods = {name: pod("new", {names.ATTEMPT: "1"}) for name in owners}
    for name, one in owners.items():
        pods[name]["metadata"]["ownerReferences"] = [one]
    pods["of a job"]["metadata"]["labels"] = {"batch.kubernetes.io/job-name": "owner"}
    with unreachable_webhook(team, of_kind(kind, base), "pods.retry-policy.dev") as hook:
        until(lambda: hook.create(pods["without a controller"]))
        assert {name for name, manifest in pods.items() if hook.create(manifest)} == {
            "without a controller",
            *kinds,
        }


def owner(api_version: str, kind: str, *, controller: bool = True) -> Object:
    """Return a reference to an owner that does not exist."""
    return {"apiVersion": api_version, "kind": kind, "name": "owner", "uid": "owner-uid", "controller": controller}


def test_the_job_pods_webhook_is_called_for_every_new_pod_of_a_job_and_for_no_other_pod(
    base: list[Object], namespace: NewNamespace
) -> None:
    team = namespace({names.PROFILE: "default"})
    of_job, of_another = pod("new"), pod("new", {names.ATTEMPT: "1"})
    of_job["metadata"] |= {"labels": {"batch.kubernetes.io/job-name": "owner"}}
    of_another["metadata"]["ownerReferences"] = [owner("example.test/v1", "Job")]
    with unreachable_webhook(team, of_kind(CONFIGURATIONS[0], base), "job-pods.retry-policy.dev") as hook:
        until(lambda: hook.create(of_job))
        assert not hook.create(of_another)
        assert not hook.create(pod("new"))


def test_the_namespace_webhook_is_called_when_one_of_our_keys_is_set_and_not_when_it_is_removed(
    base: list[Object], namespace: NewNamespace
) -> None:
    team = namespace({names.PROFILE: "default", names.MODE: "Audit", "a": "b"})
    path = f"api/v1/namespaces/{team.name}"
    configuration = of_kind(CONFIGURATIONS[1], base)
    with unreachable_webhook(team, configuration, "namespaces.retry-policy.dev") as hook:

        def is_called(**labels: str | None) -> bool:
            return hook.patch(path, metadata={"labels": labels})

        until(lambda: is_called(**{names.PROFILE: "clamp"}))
        assert is_called(**{names.MODE: "Warn"})
        assert is_called(**{f"{names.PREFIX}modes": "Warn"})
        assert is_called(**{"retry-policy/profile": "default"})
        assert hook.patch(path, metadata={"annotations": {names.PROFILE: "default"}})
        assert not is_called(a="c")
        assert not hook.patch(path, metadata={"annotations": {"a": "b"}})
        assert not is_called(**{names.MODE: None})
        assert not is_called(**{names.PROFILE: None})
        assert not is_called(**dict.fromkeys((names.PROFILE, "a", "kubernetes.io/metadata.name")))
    team.label({names.PROFILE: None, names.MODE: None})
    with unreachable_webhook(team, of_kind(CONFIGURATIONS[1], base), "namespaces.retry-policy.dev") as hook:
        until(lambda: is_called(**{names.PROFILE: "default"}))
        assert is_called(**{names.MODE: "Warn"})  # without a profile it has no effect, so the user gets a warning


def test_the_policy_webhook_is_called_only_for_the_policys_config_map_and_only_if_its_text_changes(
    base: list[Object], namespace: NewNamespace
) -> None:
    team = namespace()
    policy = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": POLICY}, "data": {KEY: "profiles: {}"}}
    another = {**policy, "metadata": {"name": "another"}}
    configuration = of_kind(CONFIGURATIONS[1], base)
    with unreachable_webhook(team, configuration, "policy.retry-policy.dev") as hook:
        until(lambda: hook.create(policy))
        assert not hook.create(another)
    until(lambda: not hook.create(policy))  # until the API server calls the deleted webhook no more
    team.create(policy)
    with unreachable_webhook(team, of_kind(CONFIGURATIONS[1], base), "policy.retry-policy.dev") as hook:
        path = team.path_to(f"configmap/{POLICY}")
        until(lambda: hook.patch(path, data={KEY: "profiles: []"}))
        assert hook.patch(path, data={KEY: None})
        assert not hook.patch(path, metadata={"labels": {"a": "b"}})
        assert not hook.delete(path)


def test_the_pod_webhook_is_called_for_pods_of_every_batch_system_even_without_annotations(
    base: list[Object], namespace: NewNamespace
) -> None:
    team = namespace({names.PROFILE: "default"})
    with unreachable_webhook(team, of_kind(CONFIGURATIONS[0], base), "pods.retry-policy.dev") as hook:
        until(lambda: hook.create(pod("new", {names.ATTEMPT: "1"})))
        for row in (one for one in KINDS.values() if one.owns_pods and one.group != "batch"):
            assert hook.create(owned(owner(f"{row.group}/{row.versions[0]}", row.kind)))
        assert hook.create(owned(owner("flyte.lyft.com/v1alpha1", "flyteworkflow")))  # as Flyte writes it
        assert not hook.create(owned(owner("example.test/v1", "Workflow")))
        for labels, batch in (
            ({"sparkoperator.k8s.io/launched-by-spark-operator": "true"}, True),
            ({"spark.operator/spark-app-name": "pi"}, True),
            ({"try_number": "1", "kubernetes_executor": "True"}, True),
            ({"try_number": "1"}, False),
        ):
            labelled = owned(owner("v1", "Pod"))
            labelled["metadata"]["labels"] = labels
            assert hook.create(labelled) == batch


def owned(by: Object) -> Object:
    """Return a pod with this ownerReference."""
    manifest = pod("new")
    manifest["metadata"]["ownerReferences"] = [by]
    return manifest


@with_operators
def test_the_webhook_uses_exactly_its_permissions_all_of_which_are_to_read(
    kubectl: Kubectl, base: list[Object], namespace: NewNamespace, tmp_path: Path
) -> None:
    team = namespace()
    granted = rights.granted(base, SERVICE_ACCOUNT)
    assert {right[4] for right in granted} == {"get", "list", "watch"}
    unseen = team.create(job("unseen", suspend=True))
    unseen_set = team.create(job_set("unseen", replicated_job("workers"), suspend=True))
    of_set = job("of-set", suspend=True)
    of_set["metadata"]["ownerReferences"] = [reference(unseen_set)]
    owners = [
        *(owner(f"{row.group}/{row.versions[0]}", row.kind) for row in KINDS.values() if row.owns_pods),
        reference(team.create(of_set)),
        reference(owner_of(KINDS["ray.io", "RayCluster"], team)),
    ]
    with rights.recording(kubectl, tmp_path) as (kubeconfig, recorded):
        arguments = ("--kubeconfig", str(kubeconfig), "--policy-configmap", f"{SYSTEM}/{POLICY}")
        with serving(tmp_path, *arguments, env={**os.environ, "POD_NAMESPACE": SYSTEM}) as served:
            until(lambda: served.get("/readyz").status == 200)
            until(lambda: "capacity provider" in served.log_text() or "nodes not read" in served.log_text())
            # It watches neither the namespace nor the Job of this pod, so it gets them.
            served.answered("/mutate", review_of(job("train"), namespace=team.name))
            team.label({names.PROFILE: "default"})
            served.answered("/mutate", review_of(pod_of(unseen), namespace=team.name))
            # It also gets the owners of other pods, even if they do not exist, and the owners of these owners.
            for one in owners:
                served.answered("/mutate", review_of(owned(one), namespace=team.name))
            # What bounds the memory of a namespace is read for a pod whose memory grows, and a PipelineRun for a pod of
            # it: tests/cluster/scenarios.
            elsewhere = {("limitranges", "list"), ("resourcequotas", "list"), ("pipelineruns", "get")}
            missing = {right for right in granted if (right[2], right[4]) not in elsewhere}

            def are_used() -> bool:
                missing.difference_update(rights.used(recorded(), granted))
                return not missing

            until(are_used)
        assert rights.used(recorded(), granted) <= granted
        assert "403" not in {request["status"][:3] for request in recorded()}
