"""What the server reads from the API: its caches, its requests, and its answers while the API does not answer."""

import json
import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.admission import answer_of, review_of
from tests.awaiting import until
from tests.bench.asking import Question, as_fast_as_answered, at_a_constant_rate
from tests.cluster.conftest import NewNamespace
from tests.cluster.installation import SYSTEM
from tests.cluster.kubectl import Kubectl, Object
from tests.cluster.manifests import job
from tests.cluster.nodes import POOL
from tests.cluster.objects import noted
from tests.documents import document_of
from tests.objects import pod
from tests.served import Served, controlling, serving
from webhook.kube import names

POLICY = """
apiVersion: retry-policy.dev/v1alpha1
kind: RetryPolicy
profiles: {default: {retries: {limit: LIMIT}}}
"""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """Start another server on the test cluster, which the API server does not call."""
    with serving(tmp_path, "--kubeconfig", os.environ["KUBECONFIG"]) as running:
        until(lambda: running.get("/readyz").status == 200)
        yield running


def mutated(served: Served, root: Object, namespace: str) -> Any:
    """Return a pod after admission."""
    return answer_of(served.answered("/mutate", review_of(root, namespace=namespace)), root).object


def pod_of(owner: Object) -> Object:
    found = pod()
    found["metadata"]["ownerReferences"][0] |= {"name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
    return found


def with_failures(kubectl: Kubectl, namespace: str, failed: int, **annotations: str) -> Object:
    """Create a Job with this number of failed pods; it is suspended, so that its controller keeps that status."""
    metadata = {"name": "train", "namespace": namespace, "annotations": annotations}
    created = kubectl.create({**job("train", suspend=True), "metadata": metadata})
    patch = json.dumps({"status": {"failed": failed}})
    patched = kubectl.run("patch", "job/train", f"--namespace={namespace}", "--subresource=status", "--patch", patch)
    assert patched.returncode == 0, patched.stderr
    return created


def test_an_owner_that_is_not_in_the_cache_is_read_from_the_api(
    served: Served, namespace: NewNamespace, kubectl: Kubectl
) -> None:
    team = namespace()
    # Without this annotation the webhook does not change pods of a Job from before opt-in.
    owner = with_failures(kubectl, team.name, 2, **{names.INTERRUPTIBLE: "true"})
    team.label({names.PROFILE: "default"})
    assert noted(mutated(served, pod_of(owner), team.name)) == {
        "placement": "Spot",
        "attempt": "2",
        "max-retries": "6",
        "attempt-source": "JobStatus",
    }


def test_the_capacity_provider_is_recognised_from_the_nodes(served: Served, namespace: NewNamespace) -> None:
    team = namespace({names.PROFILE: "default"})
    until(lambda: b"retry_policy_capacity_provider_recognised 1.0" in served.get("/metrics").body)
    placed = mutated(served, pod(owner=None, annotations={names.ATTEMPT: "3"}), team.name)
    affinity = placed["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert affinity["nodeSelectorTerms"][0]["matchExpressions"][0]["key"] == "cloud.google.com/gke-spot"


def test_a_job_that_selects_a_pool_without_on_demand_nodes_is_accepted_with_a_warning(
    served: Served, namespace: NewNamespace
) -> None:
    team = namespace({names.PROFILE: "default"})
    until(lambda: b"retry_policy_capacity_provider_recognised 1.0" in served.get("/metrics").body)
    manifest = job("train")
    manifest["spec"]["template"]["spec"]["nodeSelector"] = {POOL: "spot"}
    body = served.answered("/validate", review_of(manifest, namespace=team.name))
    warning = "spec.template.spec: fits on no on-demand node of this cluster; its pods wait for one"
    assert answer_of(body, manifest).warnings == [f"Job {team.name}/train: {warning}"]


def test_mode_audit_logs_and_counts_a_job_that_would_be_denied(served: Served, namespace: NewNamespace) -> None:
    team = namespace({names.PROFILE: "default", names.MODE: "Audit"})
    served.answered("/validate", review_of(job("train", backoffLimit=25), namespace=team.name))
    (line,) = [line for line in map(json.loads, served.log_text().splitlines()) if line["event"] == "not enforced"]
    assert (line["namespace"], line["kind"], line["name"]) == (team.name, "Job", "train")
    assert (line["profile"], line["mode"], line["would_be"], line["rules"]) == (
        "default",
        "Audit",
        "denied",
        ["retries"],
    )
    series = (
        f'retry_policy_requests_not_enforced_total{{namespace="{team.name}",profile="default",would_be="denied"}} 1.0'
    )
    assert series.encode() in served.get("/metrics").body


def test_an_owner_that_does_not_exist_or_has_another_uid_is_no_attempt_source(
    served: Served, namespace: NewNamespace, kubectl: Kubectl
) -> None:
    team = namespace({names.PROFILE: "default"})
    gone = {"metadata": {"name": "gone", "uid": "gone-uid"}}
    assert noted(mutated(served, pod_of(gone), team.name))["attempt-source"] == "Unknown"
    with_failures(kubectl, team.name, 2)
    for uid in ("another-uid", ""):
        another = {"metadata": {"name": "train", "uid": uid}}
        assert noted(mutated(served, pod_of(another), team.name))["attempt-source"] == "Unknown"


def test_many_pods_with_unknown_owners_do_not_cause_refusals_in_another_namespace(
    served: Served, namespace: NewNamespace, kubectl: Kubectl
) -> None:
    noisy, team = namespace({names.PROFILE: "default"}), namespace()
    # Without this annotation the webhook does not change pods of a Job from before opt-in.
    owner = with_failures(kubectl, team.name, 2, **{names.INTERRUPTIBLE: "true"})
    team.label({names.PROFILE: "default"})  # the Job is older, so it is not in the cache
    unknown = {"metadata": {"name": "unknown", "uid": "unknown-uid"}}
    bodies = (review_of(pod_of(unknown), namespace=noisy.name), review_of(pod_of(owner), namespace=team.name))
    attack, question = (Question(served.https_port, served.addresses["ca"], body) for body in bodies)
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        begin = time.monotonic() + 3
        attacking = pool.submit(as_fast_as_answered, attack, 90, begin, begin + 5)
        asking = pool.submit(at_a_constant_rate, question, 20, begin + 4)
        attacks, answers = (Counter(one.status for one in part.result()) for part in (attacking, asking))
    assert attacks[HTTPStatus.TOO_MANY_REQUESTS] > 0
    # If the busy API server does not answer in time, the response is 503, which is not a refusal.
    assert answers[HTTPStatus.TOO_MANY_REQUESTS] == 0, (answers, attacks)
    assert answers[HTTPStatus.OK] > 0


def test_a_namespace_that_does_not_exist_is_not_opted_in(served: Served) -> None:
    root = job("train")
    assert mutated(served, root, "no-such-namespace") == root


def test_only_an_update_of_the_stored_policy_shows_which_namespaces_use_a_profile(
    tmp_path: Path, namespace: NewNamespace, kubectl: Kubectl
) -> None:
    team = namespace({names.PROFILE: "default"})
    metadata, data = {"name": "retry-policy", "namespace": team.name}, {"policy.yaml": POLICY.replace("LIMIT", "10")}
    stored = kubectl.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    forged = {**stored, "metadata": {**stored["metadata"], "uid": "forged"}}
    arguments = ("--kubeconfig", os.environ["KUBECONFIG"], "--policy-configmap", f"{team.name}/retry-policy")
    with serving(tmp_path, *arguments) as running:
        until(lambda: running.get("/readyz").status == 200)
        messages = []
        for before in (stored, forged, None):
            edited = {**(before or forged), "data": {"policy.yaml": data["policy.yaml"].replace("default", "other")}}
            review = review_of(edited, old=before, namespace=team.name, name="retry-policy")
            messages.append(answer_of(running.answered("/validate", review), edited).message)
    known, *unknown = messages
    assert "profiles.default: is missing, and in use by " in known
    assert set(unknown) == {
        (
            f"ConfigMap {team.name}/retry-policy: profiles: lack a profile that a namespace is labelled with;"
            " see: kubectl get namespaces -L retry-policy.dev/profile"
        )
    }


def test_the_server_follows_its_policy_config_map_and_keeps_the_last_good_policy(
    tmp_path: Path, namespace: NewNamespace, kubectl: Kubectl
) -> None:
    team = namespace({names.PROFILE: "default"})

    def put(limit: str) -> None:
        data = {"policy.yaml": POLICY.replace("LIMIT", limit)}
        metadata = {"name": "retry-policy", "namespace": team.name}
        kubectl.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})

    def denied(running: Served) -> bool:
        review = review_of(job("train", backoffLimit=5), namespace=team.name)
        return b'"allowed":false' in running.answered("/validate", review)

    arguments = ("--kubeconfig", os.environ["KUBECONFIG"], "--policy-configmap", f"{team.name}/retry-policy")
    with serving(tmp_path, *arguments) as running:
        until(lambda: b"does not exist" in running.get("/readyz").body)
        put("10")
        until(lambda: running.get("/readyz").status == 200)
        assert not denied(running)
        put("4")
        until(lambda: denied(running))
        put("99")
        until(lambda: "profiles.default.retries.limit" in running.log_text())
        team.delete("configmap/retry-policy")
        until(lambda: running.log_text().count("does not exist") >= 2)
        assert denied(running)
        assert running.get("/readyz").status == 200


def test_the_controller_writes_an_event_about_a_refused_policy_and_runs_on(
    tmp_path: Path, namespace: NewNamespace, kubectl: Kubectl
) -> None:
    team = namespace()

    def has_event(words: str) -> bool:
        messages = [event["message"] for event in team.get("events")["items"] if event["reason"] == "PolicyRefused"]
        return any(words in message for message in messages)

    data = {"policy.yaml": POLICY.replace("LIMIT", "99")}
    metadata = {"name": "retry-policy", "namespace": team.name}
    kubectl.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    arguments = ("--kubeconfig", os.environ["KUBECONFIG"], "--policy-configmap", f"{team.name}/retry-policy")
    # Another replica holds the Leases of this namespace, so that this one does not lead.
    with controlling(tmp_path, *arguments, env={**os.environ, "POD_NAMESPACE": SYSTEM}) as process:
        until(lambda: has_event("no policy is in force; "))
        until(lambda: has_event("profiles.default.retries.limit"))
        assert process.poll() is None


def test_while_the_api_does_not_answer_the_server_responds_503(tmp_path: Path) -> None:
    silent = document_of(Path(os.environ["KUBECONFIG"]).read_text())
    silent["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(silent))
    with serving(tmp_path, "--kubeconfig", str(kubeconfig)) as running:
        for path in ("/mutate", "/validate"):
            reply = running.post(path, review_of(job("train"), namespace="ml"))
            assert (reply.status, reply.headers["Retry-After"]) == (503, "1")
        assert (running.get("/readyz").status, running.get("/healthz").status) == (503, 200)
