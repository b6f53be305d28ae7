"""The permissions of the replicas' ServiceAccount, also for somebody who has stolen its token.

Each write is a dry run: it passes all admission, and changes nothing.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.awaiting import until
from tests.cluster.conftest import new_namespace, with_operators
from tests.cluster.installation import CONTROLLER_ACCOUNT, INSTALLED, SYSTEM, as_service_account, built
from tests.cluster.manifests import exits, job, job_set, pod, replicated_job
from tests.cluster.namespace import STRATEGIC
from tests.cluster.objects import is_running
from tests.cluster.test_retry import WHEN, has_failed, retryable
from tests.cluster.test_retry_pipeline_runs import end_tasks, pipeline_run, succeeded_is, task
from tests.volcano import volcano_job
from webhook.accounts import counting, kueue
from webhook.kube import names
from webhook.kube.client import Api as ApiOfServer
from webhook.kube.client import ApiError
from webhook.kube.events import Notice, event
from webhook.kube.paths import path_of
from webhook.objects.patch import pointer
from webhook.pods import outcomes
from webhook.pods.matching import POD_FAILURE_POLICY
from webhook.retry import requests
from webhook.systems import account_object as account
from webhook.systems import core
from webhook.systems.adapter import Workload, record_of
from webhook.systems.argo import spec as argo
from webhook.systems.flyte.spec import FLYTE_WORKFLOW
from webhook.systems.job import rerun as of_job
from webhook.systems.job import spec as batch
from webhook.systems.job.rerun import Done
from webhook.systems.job.spec import CRON_JOB
from webhook.systems.job_set import rerun as of_job_set
from webhook.systems.job_set.spec import JOB_SET
from webhook.systems.kueue import QUEUE_NAME
from webhook.systems.tekton import rerun as of_pipeline_run
from webhook.systems.tekton import spec as tekton
from webhook.systems.trainer.progress import SERVER
from webhook.systems.volcano import account as systems_volcano
from webhook.systems.volcano import rerun as of_volcano_job
from webhook.systems.volcano import spec as volcano

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from tests.cluster.kubectl import Kubectl, Object
    from tests.cluster.namespace import Api, Namespace
    from webhook.systems.kind_spec import KindSpec

ACCOUNT = {"attempts": 1, "retries": {"spent": 1}}
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
HOOKS = f"{ADMISSION}/validatingwebhookconfigurations/retry-policy-webhook"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
SECRETS = f"/api/v1/namespaces/{SYSTEM}/secrets"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases"
BY_POLICY = "ValidatingAdmissionPolicy 'retry-policy-webhook-"
BY_RBAC = f'User "system:serviceaccount:{SYSTEM}:{CONTROLLER_ACCOUNT}" cannot '
LARGE = 10_000  # entries of `env`: with managedFields the Job has 1.2 MB, near the limit of what can be stored
OTHERS = "example.test/note"
COUNTED = "counted"  # an Account
CONDITION = {"status": "True", "reason": "Said", "message": "by a replica", "lastTransitionTime": WHEN}


class Write(NamedTuple):
    """A request: a JSON Patch with PATCH, else an object."""

    method: str
    path: str
    body: Any = None


@dataclass(frozen=True, slots=True)
class Replica:
    """A kubeconfig with the token of a replica's ServiceAccount; an opted-in namespace, and one that is not opted in.

    The opted-in one has mode Warn, so that no real replica changes its objects.
    """

    kubectl: Kubectl
    team: Namespace
    strangers: Namespace
    kubeconfig: Path

    def found(self, kind: str, name: str) -> Object:
        return self.team.get(kind, name)

    def of(self, kind: KindSpec, name: str, *, sub: str = "", opted_in: bool = True) -> str:
        """Return an object's path."""
        namespace = (self.team if opted_in else self.strangers).name
        return kind.path(namespace, name) + sub

    def refused(self, write: Write) -> str:
        """Try a write; return why it is forbidden, empty if it is not; raise ApiError for any other error."""

        async def tried() -> None:
            async with await ApiOfServer.connect(str(self.kubeconfig)) as api:
                if write.method == "GET":
                    await api.get(write.path)
                else:
                    await api.write(write.method, write.path, write.body, {"dryRun": "All"})

        try:
            asyncio.run(tried())
        except ApiError as error:
            if error.status == HTTPStatus.CONFLICT:
                return ""  # an object of that name exists, which the API server checks after admission
            if error.status != HTTPStatus.FORBIDDEN:
                raise
            return str(error)
        return ""


@pytest.fixture(scope="module")
def replica(kubectl: Kubectl, api: Api, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replica]:
    team, strangers = (new_namespace(title, {}, kubectl, api) for title in ("opted in", "not opted in"))
    for namespace in (team, strangers):
        fill(namespace)
    team.label({names.PROFILE: "default", names.MODE: "Warn"})
    kubeconfig = tmp_path_factory.mktemp("replica") / "kubeconfig"
    kubeconfig.write_text(json.dumps(as_service_account(kubectl, CONTROLLER_ACCOUNT)))
    found = Replica(kubectl, team, strangers, kubeconfig)
    until(lambda: not found.refused(counted(found)))  # until the admission policies see the label
    yield found
    kubectl.run("delete", "namespace", team.name, strangers.name, "--wait=false")


def as_ledger(namespace: Namespace, root: Object) -> None:
    """Create an Account, as only the ledger may, and only while the namespace is opted in."""
    ledger = f"system:serviceaccount:{SYSTEM}:{CONTROLLER_ACCOUNT}"
    create = partial(namespace.api.send, "POST", namespace.path_to("accounts"), root, user=ledger)
    namespace.label({names.PROFILE: "default"})
    until(lambda: create()["kind"] == "Account")
    namespace.label({names.PROFILE: None})


def fill(namespace: Namespace) -> None:
    """Create the objects for the writes, before the namespace is opted in."""
    asked_for = {"labels": {names.RETRY_IN_PROGRESS: "true"}, "annotations": {names.RETRY_ACCEPTED: "{}"}}
    namespace.create(with_metadata(pod("worker"), annotations={names.PROGRESS: "0.42"}))
    namespace.create(with_metadata(pod("member"), labels={names.PROFILE: "default"}, annotations={names.PROGRESS: "0"}))
    owner = namespace.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}})["metadata"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["uid"]}
    made = account.new(FLYTE_WORKFLOW, {"metadata": owner})
    owned = {**made["metadata"], "name": COUNTED, "ownerReferences": [reference]}
    as_ledger(namespace, {**made, "metadata": owned, "status": ACCOUNT})
    namespace.create(with_metadata(job("running")))
    namespace.create(with_metadata(job("held", suspend=True)))
    waits = job("waits")
    waits["spec"]["template"]["spec"]["schedulingGates"] = [{"name": names.DELAY}, {"name": OTHERS}]
    namespace.create(waits)
    leaving = job("leaving", {"retry-policy-test/deletion-seconds": "86400"}, podReplacementPolicy="Failed")
    leaving["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 86400
    namespace.create(leaving)
    for name in ("running", "waits"):
        namespace.pods_of(name, bool)
    for name in ("worker", "member"):
        namespace.wait_for("pods", name, is_running)
    create_telling(namespace)
    (stays,) = namespace.running("leaving", 1)
    namespace.delete(f"pod/{stays['metadata']['name']}")
    again = job("again", suspend=True, completions=3, completionMode="Indexed")
    namespace.create(with_metadata(again, labels={names.RETRY_OF: "uid"}, annotations={names.RETRY_OF: "uid"}))
    namespace.create(with_metadata(job("asked-for", suspend=True), **asked_for))
    bare = job("bare", suspend=True)
    bare["metadata"] |= asked_for
    bare["spec"]["template"]["metadata"]["labels"] = {"example.test/of": "its-pods"}
    namespace.create(bare)
    spec = {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": job("x")["spec"]}}
    nightly = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "nightly"}, "spec": spec}
    of_nightly = namespace.create(with_metadata(nightly, **asked_for))["metadata"]["uid"]
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "uid": of_nightly, "controller": True}
    fails = {"backoffLimit": 0}
    namespace.create(with_metadata(job("failed", exits(1), **fails), annotations={names.RETRYABLE: "true"}))
    namespace.create(with_metadata(job("careless", exits(1), **fails)))
    namespace.create(with_metadata(job("nightly-1", exits(1), **fails), ownerReferences=[owner]))
    for name in ("failed", "careless", "nightly-1"):
        namespace.wait_for("jobs", name, has_failed)
    namespace.create(of_job.placeholder_for(namespace.get("job", "failed"), "admin", WHEN))
    large = with_metadata(job("large", suspend=True))
    variables = [{"name": f"VARIABLE_{number}", "value": "x"} for number in range(LARGE)]
    large["spec"]["template"]["spec"]["containers"][0]["env"] = variables
    namespace.create(large)


def create_telling(namespace: Namespace) -> None:
    """Create Jobs whose programs tell their progress, or may tell it the Trainer; one is marked as stalled."""
    trains = job("trains")
    trains["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": SERVER, "value": "https://trainer"}]
    namespace.create(trains)
    namespace.running("trains", 1)
    for name in ("telling", "hangs"):
        namespace.create(job(name))
        (tells,) = namespace.running(name, 1)
        namespace.tells(tells, "0.42")
    marked = {"status": {"conditions": [{**CONDITION, "type": names.STALLED}]}}
    namespace.patch(f"pod/{tells['metadata']['name']}", marked, sub="/status", kind=STRATEGIC)


def with_metadata(manifest: Object, **more: Any) -> Object:
    """Return a manifest with other labels, annotations and fields."""
    for field in ("labels", "annotations"):
        manifest["metadata"][field] = {"example.test/team": "vision", **more.pop(field, {})}
    manifest["metadata"] |= more
    return manifest


def put(value: Any, *path: str | int) -> list[Object]:
    return [{"op": "add", "path": pointer(path), "value": value}]


def put_suspend(*, suspend: bool) -> list[Object]:
    return put(suspend, "spec", "suspend")


def annotated(value: str, key: str) -> list[Object]:
    """Return the JSON Patch that gives an object an annotation."""
    return put(value, "metadata", "annotations", key)


def counted(replica: Replica, *, opted_in: bool = True) -> Write:
    return Write("PATCH", replica.of(core.POD, "worker", opted_in=opted_in), annotated(WHEN, names.COUNTED))


def of_pod(operations: list[Object]) -> Callable[[Replica], Write]:
    return lambda replica: Write("PATCH", replica.of(core.POD, "worker"), operations)


def path_of_pod(replica: Replica, job: str, sub: str = "", *, opted_in: bool = True) -> str:
    """Return the path of the pod of a Job."""
    namespace = replica.team if opted_in else replica.strangers
    (found,) = namespace.get("pods", f"--selector=batch.kubernetes.io/job-name={job}")["items"]
    return core.POD.path(namespace.name, found["metadata"]["name"]) + sub


def without_gate(index: int, *, opted_in: bool = True) -> Callable[[Replica], Write]:
    """Return the write that removes a scheduling gate of a pod: 0 is the webhook's own."""
    operations = [{"op": "remove", "path": f"/spec/schedulingGates/{index}"}]
    return lambda replica: Write("PATCH", path_of_pod(replica, "waits", opted_in=opted_in), operations)


def pod_ends(
    job: str = "waits", reason: str = outcomes.SPOT_UNAVAILABLE, *, opted_in: bool = True, **status: Any
) -> Callable[[Replica], Write]:
    """Return the write that ends the pod of a Job; `status` replaces fields of its status."""
    condition = {**CONDITION, "type": "DisruptionTarget", "reason": reason}
    said = {"phase": "Failed", "reason": reason, **status}
    operations = [
        *put(condition, "status", "conditions", "-"),
        *(one for key, value in said.items() for one in put(value, "status", key)),
    ]
    return lambda replica: Write("PATCH", path_of_pod(replica, job, "/status", opted_in=opted_in), operations)


MARK = put({**CONDITION, "type": names.STALLED}, "status", "conditions", "-")


def marks_as_stalled(job: str, *, opted_in: bool = True, **status: Any) -> Callable[[Replica], Write]:
    """Return the write that marks the pod of a Job as stalled; `status` replaces fields of its status."""
    operations = [*MARK, *(one for key, value in status.items() for one in put(value, "status", key))]
    return lambda replica: Write("PATCH", path_of_pod(replica, job, "/status", opted_in=opted_in), operations)


def marks_bare_pod(name: str) -> Callable[[Replica], Write]:
    """Return the write that marks a pod without a Job as stalled."""
    return lambda replica: Write("PATCH", replica.of(core.POD, name, sub="/status"), MARK)


def limits_time(job: str, *, opted_in: bool = True) -> Callable[[Replica], Write]:
    """Return the write of the activeDeadlineSeconds of the pod of a Job."""
    operations = put(1, "spec", "activeDeadlineSeconds")
    return lambda replica: Write("PATCH", path_of_pod(replica, job, opted_in=opted_in), operations)


def of_a_pods_status(operations: list[Object]) -> Callable[[Replica], Write]:
    return lambda replica: Write("PATCH", path_of_pod(replica, "waits", "/status"), operations)


def of_a_job(
    operations: list[Object], name: str = "running", sub: str = "", *, opted_in: bool = True
) -> Callable[[Replica], Write]:
    return lambda replica: Write("PATCH", replica.of(batch.JOB, name, sub=sub, opted_in=opted_in), operations)


def of_a_cron_job(operations: list[Object]) -> Callable[[Replica], Write]:
    return lambda replica: Write("PATCH", replica.of(CRON_JOB, "nightly"), operations)


def of_hooks(value: Any, *path: str | int) -> Callable[[Replica], Write]:
    return lambda _: Write("PATCH", HOOKS, put(value, *path))


def condition(kind: str, reason: str) -> list[Object]:
    """Return the JSON Patch that replaces all conditions of a Job by one."""
    return put([{**CONDITION, "type": kind, "reason": reason}], "status", "conditions")


def complete(replica: Replica) -> Write:
    """Return the write that marks a running Job as complete."""
    return ended(replica, ["SuccessCriteriaMet", "Complete"], "completionTime")


def failed(replica: Replica) -> Write:
    """Return the write that marks a running Job as failed."""
    return ended(replica, ["FailureTarget", "Failed"])


def ended(replica: Replica, conditions: list[str], *times: str) -> Write:
    """Return the write of these conditions, and of the time at which a running Job started for each of `times`."""
    started = replica.found("job", "running")["status"]["startTime"]
    said = [{**CONDITION, "type": kind, "reason": POD_FAILURE_POLICY} for kind in conditions]
    status = {"conditions": said, **dict.fromkeys(("startTime", *times), started)}
    return Write("PATCH", replica.of(batch.JOB, "running", sub="/status"), put(status, "status"))


def created(namespace: str = "", **pod_spec: Any) -> Callable[[Replica], Write]:
    """Return the creation of a successor, with some fields of its pod spec."""
    return lambda replica: Write("POST", batch.JOB.path(namespace or replica.team.name), successor(**pod_spec))


def successor(**pod_spec: Any) -> Object:
    manifest = job("new", suspend=True)
    manifest["metadata"] |= {"labels": {names.RETRY_OF: "uid"}, "annotations": {names.RETRY_OF: "uid"}}
    manifest["spec"]["template"]["spec"] |= pod_spec
    return manifest


def with_context(of_pod: Object | None = None, **fields: Any) -> Callable[[Replica], Write]:
    """Return the creation of a successor whose init container has a security context."""
    container = {"name": "first", "image": "example.invalid/first", "securityContext": fields}
    return created(initContainers=[container], **(of_pod or {}))


def changed(path: tuple[str, ...], value: Any) -> Callable[[Replica], Write]:
    """Return the creation of a successor, with another value of one field."""

    def write(replica: Replica) -> Write:
        manifest = successor()
        *outer, last = path
        inner = manifest
        for part in outer:
            inner = inner[part]
        inner[last] = value
        return Write("POST", batch.JOB.path(replica.team.name), manifest)

    return write


def with_init(**fields: Any) -> Callable[[Replica], Write]:
    """Return the creation of a successor whose init container has some fields."""
    return created(initContainers=[{"name": "first", "image": "example.invalid/first", **fields}])


def with_owner(**reference: Any) -> Callable[[Replica], Write]:
    """Return the creation of a successor with an owner."""
    return changed(("metadata", "ownerReferences"), [{**OWNED_BY_CRON_JOB, **reference}])


def labelled_as_its_pods(*, opted_in: bool = True) -> Callable[[Replica], Write]:
    """Return the write of a label that a Job's pods have, beside the labels that the Job has."""

    def write(replica: Replica) -> Write:
        namespace = replica.team if opted_in else replica.strangers
        uid = namespace.get("job", "running")["metadata"]["uid"]
        label = put(uid, "metadata", "labels", "batch.kubernetes.io/controller-uid")
        return Write("PATCH", replica.of(batch.JOB, "running", opted_in=opted_in), label)

    return write


def deleted(kind: KindSpec, name: str, *, opted_in: bool = True) -> Callable[[Replica], Write]:
    return lambda replica: Write("DELETE", replica.of(kind, name, opted_in=opted_in), {})


def new_event(replica: Replica, namespace: str = "", **fields: Any) -> Write:
    namespace = namespace or replica.team.name
    notice = Notice("Job", namespace, "running", "AttemptEnded", "pod running-1 ended", api_version="batch/v1")
    return Write("POST", f"/api/v1/namespaces/{namespace}/events", {**event(notice), **fields})


def of_node(replica: Replica, reason: str) -> Write:
    """Return the creation of an Event about a Node."""
    name = replica.team.running("running", 1)[0]["spec"]["nodeName"]
    return Write("POST", "/api/v1/namespaces/default/events", event(Notice("Node", "", name, reason, "it", uid=name)))


def new_secret(name: str, kind: str = "kubernetes.io/tls", **metadata: Any) -> Write:
    data = {"tls.crt": "", "tls.key": ""}
    root = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, **metadata}, "type": kind, "data": data}
    return Write("POST", SECRETS, root)


def new_lease(name: str) -> Write:
    root = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}}
    return Write("POST", LEASES, root)


def binding() -> Write:
    root = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "more"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "retry-policy-webhook", "namespace": SYSTEM}],
    }
    return Write("POST", f"{RBAC}/clusterrolebindings", root)


def ends_held(replica: Replica, reason: str = counting.EVICTED_TOO_OFTEN, *, opted_in: bool = True) -> Write:
    """Return the write of the end of a suspended Job."""
    namespace = replica.team if opted_in else replica.strangers
    before = namespace.get("job", "held").get("status", {}).get("conditions", [])
    ends = [{**CONDITION, "type": kind, "reason": reason} for kind in ("FailureTarget", "Failed")]
    said = [*put([*before, *ends], "status", "conditions"), *put(WHEN, "status", "startTime")]
    return Write("PATCH", replica.of(batch.JOB, "held", sub="/status", opted_in=opted_in), said)


def new_account(*, opted_in: bool = True, **metadata: Any) -> Callable[[Replica], Write]:
    """Return the creation of an Account, with other fields in its metadata."""

    def creates(replica: Replica) -> Write:
        namespace = (replica.team if opted_in else replica.strangers).name
        workload = {"metadata": {"namespace": namespace, "name": "new", "uid": "new"}}
        root = account.new(FLYTE_WORKFLOW, workload) | {"status": ACCOUNT}
        root["metadata"] |= metadata
        return Write("POST", account.ACCOUNT.path(namespace), root)

    return creates


def of_an_account(operations: list[Object], *, opted_in: bool = True) -> Callable[[Replica], Write]:
    return lambda replica: Write("PATCH", replica.of(account.ACCOUNT, COUNTED, opted_in=opted_in), operations)


OWNED_BY_CRON_JOB = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "uid": "x", "controller": True}
OF_ANOTHER = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "x"}]
ANY_RULE = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"], "scope": "*"}
MUST_NOT: Mapping[str, tuple[Callable[[Replica], Write], str]] = {
    "create an Account where nobody has opted in": (
        new_account(opted_in=False),
        "may write Accounts only in a namespace with the label",
    ),
    "create an Account that keeps another object": (
        new_account(ownerReferences=[{**OF_ANOTHER[0], "blockOwnerDeletion": True}]),
        "may write no labels, annotations, finalizers",
    ),
    "create an Account that cannot be deleted": (
        new_account(finalizers=["example.test/keep"]),
        "may write no labels, annotations, finalizers",
    ),
    "change an Account where nobody has opted in": (
        of_an_account(put(ACCOUNT, "status"), opted_in=False),
        "may write Accounts only in a namespace with the label",
    ),
    "change a pod's image": (
        of_pod(put("example.invalid/other", "spec", "containers", 0, "image")),
        "may not change the spec of a pod",
    ),
    "fail a suspended Job outside the opted-in namespaces": (
        lambda one: ends_held(one, opted_in=False),
        "may add one condition FailureTarget with a reason of its own to a Job",
    ),
    "fail a suspended Job with a reason that is not the ledger's": (
        lambda one: ends_held(one, reason="Said"),
        "may add one condition FailureTarget with a reason of its own to a Job",
    ),
    "set the start of a suspended Job that does not fail": (
        of_a_job(put(WHEN, "status", "startTime"), "held", "/status"),
        "nothing in the status of a Job but its conditions",
    ),
    "change a pod's labels": (of_pod(put({"app": "x"}, "metadata", "labels")), "may not change the labels of a pod"),
    "change a pod's finalizers": (of_pod(put([OTHERS], "metadata", "finalizers")), "nothing in the metadata of a pod"),
    "change a pod's owners": (
        of_pod(put(OF_ANOTHER, "metadata", "ownerReferences")),
        "nothing in the metadata of a pod",
    ),
    "set others' annotations on a pod": (of_pod(annotated("x", OTHERS)), "no annotations of a pod but its own"),
    "set the attempt of a pod": (of_pod(annotated("1", names.ATTEMPT)), "no annotations of a pod but its own"),
    "remove another's scheduling gate from a pod": (
        without_gate(1),
        "may not change the spec of a pod, but for the removal of its own scheduling gate",
    ),
    "end a pod that runs and is not marked as stalled": (
        limits_time("telling"),
        "and the activeDeadlineSeconds of one with the condition retry-policy.dev/Stalled",
    ),
    "end a stalled pod in a namespace that is not opted in": (
        limits_time("hangs", opted_in=False),
        "may not change the spec of a pod",
    ),
    "mark a pod as stalled that has told no progress": (
        marks_as_stalled("running"),
        "may end a pod only before it has started",
    ),
    "mark a pod as stalled twice": (marks_as_stalled("hangs"), "may end a pod only before it has started"),
    "mark a pod as stalled and failed": (
        marks_as_stalled("telling", phase="Failed"),
        "may end a pod only before it has started",
    ),
    "mark a pod as stalled in a namespace that is not opted in": (
        marks_as_stalled("telling", opted_in=False),
        "may end only pods of Jobs, in",
    ),
    "mark a pod as stalled that is not counted": (marks_bare_pod("worker"), "and mark as stalled only these and pods"),
    "end a pod that runs": (pod_ends("running"), "may end a pod only before it has started"),
    "end a pod that runs, as on a lost node": (pod_ends("running", outcomes.NODE_LOST), "or while it is being deleted"),
    "end a pod that waits, as on a lost node": (
        pod_ends(reason=outcomes.NODE_LOST),
        "only with the condition DisruptionTarget and a reason of its own",
    ),
    "end a pod that is being deleted, as if it waited": (
        pod_ends("leaving"),
        "only with the condition DisruptionTarget and a reason of its own",
    ),
    "end a pod that no Job controls": (
        lambda one: Write("PATCH", one.of(core.POD, "worker", sub="/status"), put("Failed", "status", "phase")),
        "may end only pods of Jobs",
    ),
    "end a pod in a namespace that is not opted in": (pod_ends(opted_in=False), "may end only pods of Jobs, in"),
    "end a pod with another component's reason": (
        pod_ends(reason="PreemptionByScheduler"),
        "only with the condition DisruptionTarget and a reason of its own",
    ),
    "mark a pod as succeeded": (pod_ends(phase="Succeeded"), "may end a pod only before it has started"),
    "mark a pod as ready": (
        of_a_pods_status(put([{**CONDITION, "type": "Ready"}], "status", "conditions")),
        "may end a pod only before it has started",
    ),
    "write other fields of a pod's status as it ends it": (
        pod_ends(hostIP="127.0.0.1"),
        "nothing in the status of a pod but its phase, reason, message and conditions",
    ),
    "change a pod's labels by its status": (
        of_a_pods_status(put("x", "metadata", "labels", "x")),
        "nothing in the metadata of a pod as it ends it",
    ),
    "mark a pod as counted in a namespace that is not opted in": (
        lambda one: counted(one, opted_in=False),
        "set those only in a namespace",
    ),
    "change the address of its webhooks": (
        of_hooks({"url": "https://evil.test/"}, "webhooks", 0, "clientConfig"),
        "but the caBundle",
    ),
    "add a rule for everything to its webhooks": (of_hooks(ANY_RULE, "webhooks", 0, "rules", "-"), "but the caBundle"),
    "set failurePolicy Ignore in its webhooks": (
        of_hooks("Ignore", "webhooks", 0, "failurePolicy"),
        "but the caBundle",
    ),
    "remove the namespaceSelector of its webhooks": (
        of_hooks({}, "webhooks", 0, "namespaceSelector"),
        "but the caBundle",
    ),
    "remove the matchConditions of its webhooks": (of_hooks([], "webhooks", 0, "matchConditions"), "but the caBundle"),
    "change the timeout of its webhooks": (of_hooks(1, "webhooks", 0, "timeoutSeconds"), "but the caBundle"),
    "remove a webhook": (
        lambda _: Write("PATCH", HOOKS, [{"op": "remove", "path": "/webhooks/0"}]),
        "may add or remove no webhook",
    ),
    "change the order of its webhooks": (
        lambda _: Write("PATCH", HOOKS, [{"op": "move", "from": "/webhooks/0", "path": "/webhooks/1"}]),
        "may add or remove no webhook",
    ),
    "label its webhooks": (of_hooks("x", "metadata", "labels", "x"), "metadata of its webhook configurations"),
    "raise a Job's backoffLimit to more than ten above what has failed": (
        of_a_job(put(11, "spec", "backoffLimit")),
        "may only raise the backoffLimit of a Job, to 10 more than have failed at most",
    ),
    "lower a Job's backoffLimit": (
        of_a_job(put(0, "spec", "backoffLimit")),
        "may only raise the backoffLimit of a Job, to 10 more than have failed at most",
    ),
    "raise a Job's backoffLimit in a namespace that is not opted in": (
        of_a_job(put(9, "spec", "backoffLimit"), opted_in=False),
        "may only raise the backoffLimit of a Job, to 10 more than have failed at most, in a namespace with the label",
    ),
    "change a Job's parallelism": (
        of_a_job(put(9, "spec", "parallelism")),
        "nothing in the spec of a Job but backoffLimit and suspend",
    ),
    "change the nodes of a suspended Job": (
        of_a_job(put("x", "spec", "template", "spec", "nodeSelector", "x"), "held"),
        "nothing in the spec of a Job but backoffLimit and suspend",
    ),
    "change a Job's labels": (of_a_job(put("x", "metadata", "labels", "x")), "no labels of a Job but take off its own"),
    "remove others' labels from a Job": (
        of_a_job([{"op": "remove", "path": pointer(("metadata", "labels", "example.test/team"))}]),
        "no labels of a Job but take off its own",
    ),
    "mark a Job for a retry": (
        of_a_job(put("true", "metadata", "labels", names.RETRY_IN_PROGRESS)),
        "no labels of a Job but take off its own",
    ),
    "put a Job into a queue": (
        of_a_job(put("main", "metadata", "labels", QUEUE_NAME)),
        "no labels of a Job but take off its own",
    ),
    "change a Job's finalizers": (
        of_a_job(put([OTHERS], "metadata", "finalizers")),
        "nothing in the metadata of a Job",
    ),
    "change a Job's owners": (
        of_a_job(put(OF_ANOTHER, "metadata", "ownerReferences")),
        "nothing in the metadata of a Job",
    ),
    "set others' annotations on a Job": (of_a_job(annotated("x", OTHERS)), "no annotations of a Job but its own"),
    "mark a Job as retryable": (
        of_a_job(annotated("true", names.RETRYABLE), "careless"),
        "no annotations of a Job but its own",
    ),
    "write that a user has requested a retry": (
        # In opted-in namespaces the webhook of requested retries is called first, and denies it too.
        of_a_job(annotated("{}", names.RETRY_ACCEPTED), "careless", opted_in=False),
        "no annotations of a Job but its own",
    ),
    "mark a Job as a successor": (
        of_a_job(annotated("x", names.RETRY_OF), "held"),
        "no annotations of a Job but its own",
    ),
    "change a Job's labels by its status": (
        of_a_job(put("x", "metadata", "labels", "x"), sub="/status"),
        "no labels of a Job but take off its own",
    ),
    "write a retry history in a namespace that is not opted in": (
        of_a_job(annotated("[]", names.RETRY_HISTORY), opted_in=False),
        "set those only in a namespace with the label",
    ),
    "suspend a Job in a namespace that is not opted in": (
        of_a_job(put_suspend(suspend=True), opted_in=False),
        "may suspend a Job only in a namespace with the label",
    ),
    "resume a Job that its author suspended": (of_a_job(put_suspend(suspend=False), "held"), "may resume a Job only"),
    "mark a running Job as complete": (complete, "may add one condition FailureTarget"),
    "mark a running Job as failed": (failed, "may add one condition FailureTarget"),
    "add another component's condition to a Job": (
        of_a_job(condition("example.test/Said", "Said"), sub="/status"),
        "may add one condition FailureTarget",
    ),
    "fail a Job with another component's reason": (
        of_a_job(condition("FailureTarget", "DeadlineExceeded"), sub="/status"),
        "may add one condition FailureTarget",
    ),
    "fail a Job in a namespace that is not opted in": (
        of_a_job(condition("FailureTarget", POD_FAILURE_POLICY), sub="/status", opted_in=False),
        "may add one condition FailureTarget",
    ),
    "change the number of failed pods of a Job": (
        of_a_job(put(9, "status", "failed"), sub="/status"),
        "status of a Job",
    ),
    "change the number of succeeded pods of a running Job": (
        of_a_job(put(9, "status", "succeeded"), sub="/status"),
        "nothing in the status of a Job",
    ),
    "change the schedule of a CronJob": (
        of_a_cron_job(put("9 * * * *", "spec", "schedule")),
        "may not change the spec of a CronJob",
    ),
    "change a CronJob's annotations": (of_a_cron_job(put("x", "metadata", "annotations", OTHERS)), "of a CronJob but"),
    "mark a CronJob for a retry": (
        of_a_cron_job(put("x", "metadata", "labels", names.RETRY_IN_PROGRESS)),
        "no labels of a CronJob but take off its own",
    ),
    "create a Job in kube-system": (created("kube-system", hostPID=True), "may create Jobs only in namespaces"),
    "create a Job that runs at once": (changed(("spec", "suspend"), value=False), "may create Jobs only suspended"),
    "create a Job without the label of a successor": (changed(("metadata", "labels"), value={}), "only with the label"),
    "create a Job with hostNetwork": (created(hostNetwork=True), "in the namespaces of a node"),
    "create a Job with hostPID": (created(hostPID=True), "in the namespaces of a node"),
    "create a Job with hostIPC": (created(hostIPC=True), "in the namespaces of a node"),
    "create a Job with a hostPath volume": (
        created(volumes=[{"name": "root", "hostPath": {"path": "/"}}]),
        "with a hostPath volume",
    ),
    "create a Job with a privileged container": (with_context(privileged=True), "with a privileged container"),
    "create a Job with the capability SYS_ADMIN": (
        with_context(capabilities={"add": ["SYS_ADMIN"]}),
        "with a privileged container",
    ),
    "create a Job without SELinux confinement": (
        with_context(seLinuxOptions={"type": "spc_t"}),
        "with a privileged container",
    ),
    "create a Job with procMount Unmasked": (
        with_context(of_pod={"hostUsers": False}, procMount="Unmasked"),
        "with a privileged container",
    ),
    "create a Job without AppArmor confinement": (
        with_context(appArmorProfile={"type": "Unconfined"}),
        "with a privileged container",
    ),
    "create a Job without AppArmor confinement by an annotation": (
        changed(
            ("spec", "template", "metadata", "annotations"),
            {"container.apparmor.security.beta.kubernetes.io/main": "unconfined"},
        ),
        "with a privileged container",
    ),
    "create a Job as another SELinux user": (
        with_context(seLinuxOptions={"user": "system_u"}),
        "with a privileged container",
    ),
    "create a Job in another SELinux role": (with_context(seLinuxOptions={"role": "r"}), "with a privileged container"),
    "create a Job with a hostPort": (
        with_init(ports=[{"containerPort": 80, "hostPort": 80}]),
        "with ports of a node (hostPort)",
    ),
    "create a Job that probes another host": (
        with_init(restartPolicy="Always", livenessProbe={"httpGet": {"host": "169.254.169.254", "port": 80}}),
        "nor with probes of other hosts",
    ),
    "create a Job whose hook calls another host": (
        with_init(restartPolicy="Always", lifecycle={"preStop": {"httpGet": {"host": "169.254.169.254", "port": 80}}}),
        "nor with probes of other hosts",
    ),
    "create a Job with a sysctl that is not safe": (
        created(securityContext={"sysctls": [{"name": "kernel.msgmax", "value": "65536"}]}),
        "with sysctls beyond",
    ),
    "create a Job that cannot be deleted": (
        changed(("metadata", "finalizers"), ["example.test/keep"]),
        "may create no Job with finalizers",
    ),
    "create a Job with an owner that is not a CronJob": (
        with_owner(kind="Job", name="running"),
        "nor with another owner than a CronJob",
    ),
    "create a Job with a CronJob that does not control it": (
        with_owner(controller=False),
        "nor with another owner than a CronJob",
    ),
    "give a Job a label of its pods": (labelled_as_its_pods(), "no labels of a Job but take off its own"),
    "give a Job a label of its pods in a namespace that is not opted in": (
        labelled_as_its_pods(opted_in=False),
        "no labels of a Job but take off its own",
    ),
    "create a Job with another ServiceAccount": (created(serviceAccountName="deployer"), "another ServiceAccount"),
    "delete a running Job": (deleted(batch.JOB, "running"), "may delete no Job but"),
    "delete a failed Job that is not retryable": (deleted(batch.JOB, "careless"), "may delete no Job but"),
    "delete a Job in a namespace that is not opted in": (
        deleted(batch.JOB, "failed", opted_in=False),
        "may delete only in namespaces",
    ),
    "write Events as another component": (
        lambda one: new_event(one, source={"component": "kubelet"}),
        "only under its own name",
    ),
    "write Events in a namespace that is not opted in": (
        lambda one: new_event(one, one.strangers.name),
        "may write Events only in its own namespace",
    ),
    "write another Event on a Node": (
        lambda one: of_node(one, "NodeNotReady"),
        "and on Nodes that reject pods",
    ),
    "write an Event that cannot be deleted": (
        lambda one: new_event(one, metadata={"name": "x", "finalizers": ["example.test/keep"]}),
        "no Events with finalizers or owners",
    ),
    "write an Event with an owner": (
        lambda one: new_event(one, metadata={"name": "x", "ownerReferences": OF_ANOTHER}),
        "no Events with finalizers or owners",
    ),
    # The permission is for pods of a Workflow that has failed.
    "delete a pod": (
        lambda one: Write("DELETE", one.of(core.POD, "worker"), {}),
        "may delete no pod but one of a Workflow or Volcano Job that has ended",
    ),
    "create a Secret with another name": (lambda _: new_secret("other"), "may write no Secret but"),
    "create a Secret for the token of a ServiceAccount": (
        lambda _: new_secret(
            "retry-policy-webhook-certificates",
            "kubernetes.io/service-account-token",
            annotations={"kubernetes.io/service-account.name": "default"},
        ),
        "may write no Secret but",
    ),
    "create a Lease with another name": (lambda _: new_lease("other"), "may write no Lease but"),
}
CANNOT: Mapping[str, tuple[Callable[[Replica], Write], str]] = {
    "read a ConfigMap of a user": (
        lambda replica: Write("GET", f"/api/v1/namespaces/{replica.team.name}/configmaps"),
        "list resource",
    ),
    "read another Secret": (lambda _: Write("GET", f"{SECRETS}/other"), "get resource"),
    "list Secrets of other namespaces": (
        lambda one: Write("GET", f"/api/v1/namespaces/{one.team.name}/secrets"),
        "list resource",
    ),
    "delete the admission policy for its writes to pods": (
        lambda _: Write("DELETE", f"{ADMISSION}/validatingadmissionpolicies/retry-policy-webhook-pods", {}),
        "delete resource",
    ),
    "change the binding of an admission policy": (
        lambda _: Write("PATCH", f"{ADMISSION}/validatingadmissionpolicybindings/retry-policy-webhook-pods", []),
        "patch resource",
    ),
    "bind itself to another role": (lambda _: binding(), "create resource"),
    "change its own role": (
        lambda _: Write("PATCH", f"{RBAC}/clusterroles/retry-policy-webhook", []),
        "patch resource",
    ),
    "run a command in a pod": (
        lambda one: Write("POST", one.of(core.POD, "worker", sub="/exec?command=sh"), {}),
        "create resource",
    ),
    "opt a namespace in": (
        lambda one: Write("PATCH", f"/api/v1/namespaces/{one.strangers.name}", []),
        "patch resource",
    ),
    "change other webhook configurations": (
        lambda _: Write("PATCH", f"{ADMISSION}/mutatingwebhookconfigurations/other", []),
        "patch resource",
    ),
    "delete an Account": (lambda one: Write("DELETE", one.of(account.ACCOUNT, COUNTED)), "delete resource"),
    "change its own Deployment": (
        lambda _: Write("PATCH", f"/apis/apps/v1/namespaces/{SYSTEM}/deployments/retry-policy-webhook", []),
        "patch resource",
    ),
}


# Each table is one test: its objects take longer to create than its writes, and each worker would create them.
def not_refused_by(replica: Replica, by: str, writes: Mapping[str, tuple[Callable[[Replica], Write], str]]) -> Object:
    """Return the answer to each write that is not refused with `by` and its reason, by what it does."""
    said = {what: (replica.refused(write(replica)), why) for what, (write, why) in writes.items()}
    return {what: answer for what, (answer, why) in said.items() if by not in answer or why not in answer}


def refused(replica: Replica, writes: Mapping[str, Callable[[Replica], Write]]) -> Object:
    """Return the answer to each write that is refused, by what it does."""
    said = {what: replica.refused(write(replica)) for what, write in writes.items()}
    return {what: answer for what, answer in said.items() if answer}


def test_the_policies_refuse_a_replica_what_it_must_not_do(replica: Replica) -> None:
    assert not_refused_by(replica, BY_POLICY, MUST_NOT) == {}


def test_a_replica_has_no_permission_for_what_it_never_does(replica: Replica) -> None:
    expected = {what: (write, BY_RBAC + why) for what, (write, why) in CANNOT.items()}
    assert not_refused_by(replica, BY_RBAC, expected) == {}


def placeholder(replica: Replica) -> Object:
    (found,) = [
        one for one in replica.team.get("jobs", f"--selector={names.RETRY_OF}")["items"] if of_job.is_placeholder(one)
    ]
    return dict(found)


def release(**fields: Any) -> list[Object]:
    state = of_job.RetryState(name="again", uid="uid", by="admin", at=WHEN, metadata={}, history="[]")
    for key, value in fields.items():
        setattr(state, key, value)
    return of_job.release(state)


def ca_bundles(replica: Replica) -> Write:
    """Return the write of another authority into every webhook, like a rotation."""
    number = len(replica.kubectl.get("validatingwebhookconfiguration", "retry-policy-webhook")["webhooks"])
    operations = [one for index in range(number) for one in put("Y2E=", "webhooks", index, "clientConfig", "caBundle")]
    return Write("PATCH", HOOKS, operations)


DOES: Mapping[str, Callable[[Replica], Write]] = {
    "create an Account": new_account(),
    "change an Account": of_an_account(put(ACCOUNT, "status")),
    "mark a pod as counted": counted,
    "remove its own scheduling gate from a pod": without_gate(0),
    "remove its own scheduling gate from a pod after opt-out": without_gate(0, opted_in=False),
    "end a pod that no spot node takes": pod_ends(),
    "end a pod that has never started": pod_ends(reason=outcomes.NEVER_STARTED),
    "end a pod that is being deleted on a lost node": pod_ends("leaving", outcomes.NODE_LOST),
    "mark a pod as stalled": marks_as_stalled("telling"),
    "mark a pod of another kind as stalled": marks_bare_pod("member"),
    "mark a pod as stalled that tells its progress to the Trainer": marks_as_stalled("trains"),
    "end a pod that is marked as stalled": limits_time("hangs"),
    "write the caBundle of every webhook": ca_bundles,
    "suspend a Job": of_a_job(put_suspend(suspend=True)),
    "raise a Job's backoffLimit": of_a_job(put(9, "spec", "backoffLimit")),
    "fail a Job that had too many disruptions": of_a_job(
        condition("FailureTarget", counting.LIMIT_EXCEEDED), sub="/status"
    ),
    "fail a Job whose pod has never started": of_a_job(
        condition("FailureTarget", outcomes.NEVER_STARTED), sub="/status"
    ),
    "fail a Job after a bug": of_a_job(condition("FailureTarget", POD_FAILURE_POLICY), sub="/status"),
    "write an Event about an attempt": new_event,
    "write an Event in its own namespace": lambda one: new_event(one, SYSTEM),
    "write an Event on a Node that rejects pods": lambda one: of_node(one, "RejectsPods"),
    "write an Event on a Node whose hardware ends pods": lambda one: of_node(one, "HardwareFaults"),
    "create the Secret of its certificates": lambda _: new_secret("retry-policy-webhook-certificates"),
    "create the Lease of the ledger": lambda _: new_lease("retry-policy-webhook-ledger"),
    "create the Lease of requested retries": lambda _: new_lease("retry-policy-webhook-requested-retries"),
    "create a successor": created(),
    "create a successor with the ServiceAccount default": created(serviceAccountName="default"),
    "create a successor of the Job of a CronJob": with_owner(),
    "create a successor with a port, a probe and a safe sysctl": created(
        initContainers=[
            {
                "name": "first",
                "image": "example.invalid/first",
                "restartPolicy": "Always",
                "ports": [{"containerPort": 80}],
                "livenessProbe": {"httpGet": {"port": 80}},
                "lifecycle": {"preStop": {"exec": {"command": ["true"]}}},
            }
        ],
        securityContext={"sysctls": [{"name": "net.ipv4.tcp_syncookies", "value": "1"}]},
    ),
    "create a successor with harmless capabilities": with_context(
        capabilities={"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]}
    ),
    "create a placeholder": lambda one: Write(
        "POST", batch.JOB.path(one.team.name), of_job.placeholder_for(one.found("job", "careless"), "admin", WHEN)
    ),
    "create a successor as a trial": lambda one: Write("POST", batch.JOB.path(one.team.name), trial(one)),
    "write the stage of a retry": lambda one: Write(
        "PATCH",
        one.of(batch.JOB, placeholder(one)["metadata"]["name"]),
        of_job.stage_patch(placeholder(one), "Deleting"),
    ),
    "delete a failed Job that is retryable": deleted(batch.JOB, "failed"),
    "delete the failed Job of a CronJob": deleted(batch.JOB, "nightly-1"),
    "delete a placeholder": lambda one: Write("DELETE", one.of(batch.JOB, placeholder(one)["metadata"]["name"]), {}),
    "fail a suspended Job that was evicted too often": ends_held,
    "write the completed indexes of a successor": of_a_job(
        of_job.done_patch(Done(succeeded=2, completed_indexes="0,1")), "again", "/status"
    ),
    "release a successor": of_a_job(release(), "again"),
    "release a successor after opt-out": of_a_job(
        [one for one in release() if one["op"] != "add"], "again", opted_in=False
    ),
    "remove its own keys from a Job": lambda one: Write(
        "PATCH", one.of(batch.JOB, "asked-for"), requests.forget(one.found("job", "asked-for"))
    ),
    # The API server then sets the labels of the Job's pods on it.
    "remove its own keys from a Job without other labels": lambda one: Write(
        "PATCH", one.of(batch.JOB, "bare"), requests.forget(one.found("job", "bare"))
    ),
    "remove its own keys from a Job after opt-out": lambda one: Write(
        "PATCH", one.of(batch.JOB, "asked-for", opted_in=False), requests.forget(one.found("job", "asked-for"))
    ),
    "remove its own keys from a CronJob": lambda one: Write(
        "PATCH", one.of(CRON_JOB, "nightly"), requests.forget(one.found("cronjob", "nightly"))
    ),
}


def trial(replica: Replica) -> Object:
    """Return the successor of a Job, with another name that is not in use."""
    found = of_job.successor(placeholder(replica))
    found["metadata"]["name"] = "trial"
    return found


def test_a_replica_may_do_what_it_does(replica: Replica) -> None:
    assert refused(replica, DOES) == {}


@pytest.fixture(scope="module")
def operated(replica: Replica) -> Replica:
    """Create a failed JobSet and a failed PipelineRun, and running ones."""
    team = replica.team
    team.create(with_metadata(retryable(job_set("training", replicated_job("worker", exits(1), backoffLimit=0)))))
    team.create(with_metadata(job_set("active", replicated_job("worker"))))
    for namespace in (team, replica.strangers):
        namespace.create(with_metadata(STEPS))
    team.create(pipeline_run(task("a"), name="build"))
    team.create(pipeline_run(task("b"), name="active"))
    for name, status in (("pending", "PipelineRunPending"), ("cancelled", "Cancelled")):
        manifest = pipeline_run(task("c"), name=name)
        manifest["spec"]["status"] = status
        team.create(manifest)
    for namespace in (team, replica.strangers):
        namespace.create(new_workload("admitted", active=True))
        namespace.create(new_workload("inactive", active=False))
    end_tasks(team, 1, "a")
    team.wait_for("jobsets", "training", has_failed)
    team.wait_for("jobsets", "active", lambda found: "replicatedJobsStatus" in found.get("status", {}))
    team.wait_for("pipelineruns", "build", succeeded_is("False"))
    team.wait_for("pipelineruns", "cancelled", succeeded_is("False"))
    team.wait_for("taskruns", "active-b", succeeded_is("Unknown"))
    for name, phase in (("gang", "Failed"), ("busy", "Running")):
        add_volcano_job(team, name, phase)
    return replica


def add_volcano_job(team: Namespace, name: str, phase: str) -> None:
    """Create a Volcano Job in a phase with a pod that has ended, and one that runs."""
    root = team.create({**with_metadata(volcano_job()), "metadata": {"name": name}})
    state = {"state": {"phase": phase, "lastTransitionTime": WHEN}, "retryCount": 3}
    team.api.send("PATCH", f"{volcano.JOB.path(team.name, name)[1:]}/status", {"status": state})
    owner = {"apiVersion": volcano.JOB.api_version, "kind": "Job", "name": name, "uid": root["metadata"]["uid"]}
    for part in ("ended", "running"):
        made = pod(f"{name}-{part}")
        made["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
        team.create(made)
        team.wait_for("pods", f"{name}-{part}", is_running)
    team.ends(team.get("pod", f"{name}-ended"), 1)
    team.wait_for("pods", f"{name}-ended", lambda found: found["status"]["phase"] == "Failed")


def of_a_job_set(operations: list[Object]) -> Callable[[Replica], Write]:
    return lambda replica: Write("PATCH", replica.of(JOB_SET, "training"), operations)


def of_a_run(operations: list[Object]) -> Callable[[Replica], Write]:
    return lambda replica: Write("PATCH", replica.of(tekton.PIPELINE_RUN, "build"), operations)


def job_set_again(replica: Replica, name: str = "training", **status: Any) -> Write:
    """Return the write that restarts a JobSet; `status` replaces fields of its status."""
    root = replica.found("jobset", name)
    root.setdefault("status", {}).setdefault("conditions", [])
    root = of_job_set.run_again(root)
    root["status"] |= status
    return Write("PUT", replica.of(JOB_SET, name, sub="/status"), root)


def job_set_ends(replica: Replica, name: str = "active", reason: str = counting.FREE_TOO_OFTEN, **status: Any) -> Write:
    """Return the write that fails a JobSet; `status` replaces fields of its status."""
    before = replica.found("jobset", name).get("status", {})
    others = [one for one in before.get("conditions", []) if one["type"] != "Failed"]
    said = [*others, {**CONDITION, "type": "Failed", "reason": reason}]
    value = {**before, "conditions": said, "terminalState": "Failed", **status}
    return Write("PATCH", replica.of(JOB_SET, name, sub="/status"), put(value, "status"))


def run_again(replica: Replica, name: str = "build", **status: Any) -> Write:
    """Return the write that restarts a PipelineRun; `status` replaces fields of its status."""
    planned = of_pipeline_run.PipelinePlan(again={"a"})
    root = of_pipeline_run.run_again(replica.found("pipelinerun", name), planned, WHEN)
    root["status"] |= status
    return Write("PUT", replica.of(tekton.PIPELINE_RUN, name, sub="/status"), root)


def of_a_workflow(operations: list[Object], *, opted_in: bool = True) -> Callable[[Replica], Write]:
    return lambda replica: Write("PATCH", replica.of(argo.WORKFLOW, "steps", opted_in=opted_in), operations)


def gang_again(replica: Replica, name: str = "gang", **status: Any) -> Write:
    """Return the write that restarts a Volcano Job; `status` replaces fields of its status."""
    root = of_volcano_job.run_again(replica.found("jobs.batch.volcano.sh", name), WHEN)
    root["status"] |= status
    return Write("PUT", replica.of(volcano.JOB, name, sub="/status"), root)


def new_command(*, opted_in: bool = True, of: str = "busy", **metadata: Any) -> Callable[[Replica], Write]:
    """Return the creation of the Command that ends a Volcano Job, with other fields in its metadata."""

    def write(replica: Replica) -> Write:
        made = systems_volcano.suspend(replica.found("jobs.batch.volcano.sh", of))
        made.root["metadata"] |= metadata
        path = made.path if opted_in else made.path.replace(replica.team.name, replica.strangers.name)
        made.root["metadata"]["namespace"] = (replica.team if opted_in else replica.strangers).name
        return Write("POST", path, made.root)

    return write


def of_a_task_run(operations: list[Object]) -> Callable[[Replica], Write]:
    return lambda replica: Write("PATCH", replica.of(tekton.TASK_RUN, "active-b"), operations)


STEPS = {
    "apiVersion": "argoproj.io/v1alpha1",
    "kind": "Workflow",
    "metadata": {"name": "steps"},
    "spec": {"entrypoint": "main", "templates": [{"name": "main", "container": {"image": "example.invalid/main"}}]},
}


def of_a_workload(
    operations: list[Object], name: str = "admitted", sub: str = "", *, opted_in: bool = True
) -> Callable[[Replica], Write]:
    """Return the write that patches a Workload of Kueue."""

    def write(replica: Replica) -> Write:
        namespace = (replica.team if opted_in else replica.strangers).name
        return Write("PATCH", path_of(kueue.API_VERSION, kueue.RESOURCE, namespace, name) + sub, operations)

    return write


def new_workload(name: str, *, active: bool) -> Object:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "example.invalid/main"}]}}
    return {
        "apiVersion": kueue.API_VERSION,
        "kind": "Workload",
        "metadata": {"name": name},
        "spec": {
            "active": active,
            "queueName": "team",
            "podSets": [{"name": "main", "count": 1, "template": template}],
        },
    }


ACTIVATION = [{"op": "add", "path": "/spec/active", "value": True}]
DEACTIVATION = [{"op": "add", "path": "/spec/active", "value": False}]
CHILD = {"apiVersion": "tekton.dev/v1", "kind": "TaskRun", "name": "forged", "pipelineTaskName": "a"}
OPERATED_MUST_NOT: Mapping[str, tuple[Callable[[Replica], Write], str]] = {
    "change the spec of a JobSet": (
        of_a_job_set(put(9, "spec", "ttlSecondsAfterFinished")),
        "may not change the spec of a JobSet",
    ),
    "suspend a JobSet": (of_a_job_set(put_suspend(suspend=True)), "may not change the spec of a JobSet"),
    "change a JobSet's labels": (
        of_a_job_set(put("x", "metadata", "labels", "x")),
        "no labels of a JobSet but its own",
    ),
    "mark a JobSet as completed": (
        lambda one: job_set_again(one, conditions=[{**CONDITION, "type": "Completed"}]),
        "may only end a JobSet that runs, with a reason of its own, or take back that it has failed",
    ),
    "restart a JobSet that has not failed": (
        lambda one: job_set_again(one, "active"),
        "may only end a JobSet that runs, with a reason of its own, or take back that it has failed",
    ),
    "reset the restarts of a JobSet": (
        lambda one: job_set_again(one, restarts=0),
        "may only end a JobSet that runs, with a reason of its own, or take back that it has failed",
    ),
    "fail a JobSet with a reason that is not the ledger's": (
        lambda one: job_set_ends(one, reason="Said"),
        "may only end a JobSet that runs, with a reason of its own",
    ),
    "fail a JobSet that has ended": (
        lambda one: job_set_ends(one, "training"),
        "may only end a JobSet that runs, with a reason of its own",
    ),
    "change the counted restarts of a JobSet that it fails": (
        lambda one: job_set_ends(one, restartsCountTowardsMax=9),
        "may only end a JobSet that runs, with a reason of its own",
    ),
    "change the status of a JobSet's Jobs": (
        lambda one: job_set_again(one, replicatedJobsStatus=[]),
        "nothing else in the status of a JobSet",
    ),
    "change the ServiceAccount of a PipelineRun": (
        of_a_run(put("deployer", "spec", "taskRunTemplate", "serviceAccountName")),
        "nothing in the spec of a PipelineRun",
    ),
    "start a PipelineRun that is pending": (
        lambda one: Write("PATCH", one.of(tekton.PIPELINE_RUN, "pending"), [{"op": "remove", "path": "/spec/status"}]),
        "nothing in the spec of a PipelineRun",
    ),
    "cancel a PipelineRun": (of_a_run(put("Cancelled", "spec", "status")), "nothing in the spec of a PipelineRun"),
    "change the tasks of a PipelineRun": (
        lambda one: run_again(one, pipelineSpec={"tasks": [task("other")]}),
        "nothing in the status of a PipelineRun",
    ),
    "add a forged child to a PipelineRun": (
        lambda one: run_again(one, childReferences=[CHILD]),
        "nothing in the status of a PipelineRun",
    ),
    "mark a PipelineRun as succeeded": (
        lambda one: run_again(one, conditions=[{**CONDITION, "type": "Succeeded"}]),
        "may only take back that a PipelineRun has failed",
    ),
    "restart a running PipelineRun": (
        lambda one: run_again(one, "active"),
        "may only take back that a PipelineRun has failed",
    ),
    "change the steps of a Workflow": (
        of_a_workflow(put("x", "spec", "entrypoint")),
        "nothing in the spec of a Workflow",
    ),
    "end a Workflow without its exit handlers": (
        of_a_workflow(put("Terminate", "spec", "shutdown")),
        "nothing in the spec of a Workflow",
    ),
    "write the status of a Workflow": (
        of_a_workflow(put({"phase": "Succeeded"}, "status")),
        "may only take back that a Workflow has failed",
    ),
    "annotate a Workflow with a key that is not its own": (
        of_a_workflow(annotated("x", OTHERS)),
        "no annotations of a workload but its own",
    ),
    "label a Workflow": (of_a_workflow(put({"x": "y"}, "metadata", "labels")), "no labels of a workload but its own"),
    "write a retry history where nobody has opted in": (
        of_a_workflow(annotated("[]", names.RETRY_HISTORY), opted_in=False),
        "no annotations of a workload but its own",
    ),
    "end a Workflow where nobody has opted in": (
        of_a_workflow(put("Stop", "spec", "shutdown"), opted_in=False),
        "nothing in the spec of a Workflow",
    ),
    "change the timeout of a TaskRun": (
        of_a_task_run(put("1s", "spec", "timeout")),
        "nothing in the spec of a TaskRun",
    ),
    "activate a Workload": (of_a_workload(ACTIVATION, "inactive"), "may only deactivate a Workload"),
    "deactivate a Workload outside the opted-in namespaces": (
        of_a_workload(DEACTIVATION, opted_in=False),
        "may only deactivate a Workload, in a namespace with the label",
    ),
    "change the queue of a Workload": (
        of_a_workload([*DEACTIVATION, *put("other", "spec", "queueName")]),
        "nothing in the spec of a Workload but active",
    ),
    "change the labels of a Workload": (
        of_a_workload([*DEACTIVATION, *put({"x": "x"}, "metadata", "labels")]),
        "may not change the metadata of a Workload",
    ),
    "restart a Volcano Job that has not ended": (
        lambda one: gang_again(one, "busy"),
        "may only let Volcano begin a Job again that has failed or was aborted",
    ),
    "mark a Volcano Job as completed": (
        lambda one: gang_again(one, state={"phase": "Completed"}),
        "may only let Volcano begin a Job again that has failed or was aborted",
    ),
    "change the counted pods of a Volcano Job": (
        lambda one: gang_again(one, succeeded=9),
        "nothing else in the status of a Volcano Job",
    ),
    "create a Command where nobody has opted in": (
        new_command(opted_in=False),
        "may create Commands only in namespaces",
    ),
    "create a Command that cannot be deleted": (
        new_command(finalizers=["example.test/keep"]),
        "may create no Command with finalizers",
    ),
    "create a Command with another owner": (
        new_command(ownerReferences=OF_ANOTHER),
        "nor with another owner than the Job that it is for",
    ),
    "delete a running pod of a Volcano Job": (deleted(core.POD, "gang-running"), "may delete no pod but one of"),
    "delete a running TaskRun": (deleted(tekton.TASK_RUN, "active-b"), "may delete no TaskRun"),
}
OPERATED_DOES: Mapping[str, Callable[[Replica], Write]] = {
    "write the requester on a JobSet": lambda one: Write(
        "PATCH",
        one.of(JOB_SET, "training"),
        record_of(
            Workload(root=one.found("jobset", "training"), run=None, when=WHEN),
            "admin",
            of_job_set.run_of(one.found("jobset", "training")),
        ),
    ),
    "restart a failed JobSet": job_set_again,
    "fail a JobSet that restarted too often": job_set_ends,
    "fail a JobSet that was evicted too often": lambda one: job_set_ends(one, reason=counting.EVICTED_TOO_OFTEN),
    "deactivate a Workload": of_a_workload(DEACTIVATION),
    "write the requester on a PipelineRun": lambda one: Write(
        "PATCH",
        one.of(tekton.PIPELINE_RUN, "build"),
        of_pipeline_run.record_patch(
            one.found("pipelinerun", "build"), of_pipeline_run.PipelinePlan(), "admin", WHEN, keep_finally=False
        ),
    ),
    "restart a failed PipelineRun": run_again,
    "undo the cancellation of a PipelineRun": lambda one: Write(
        "PATCH", one.of(tekton.PIPELINE_RUN, "cancelled"), [{"op": "remove", "path": "/spec/status"}]
    ),
    "end a Workflow": of_a_workflow(put("Stop", "spec", "shutdown")),
    "suspend a Workflow": of_a_workflow(put_suspend(suspend=True)),
    "cancel a TaskRun": of_a_task_run(
        [*put("TaskRunCancelled", "spec", "status"), *put("why", "spec", "statusMessage")]
    ),
    "delete a TaskRun that has ended": deleted(tekton.TASK_RUN, "build-a"),
    "restart a failed Volcano Job": gang_again,
    "create the Command that suspends a Volcano Job": new_command(),
    "delete a pod of a Volcano Job that has ended": deleted(core.POD, "gang-ended"),
}


@with_operators
def test_the_policies_refuse_a_replica_what_it_must_not_do_with_operators(operated: Replica) -> None:
    assert not_refused_by(operated, BY_POLICY, OPERATED_MUST_NOT) == {}


@with_operators
def test_a_replica_may_do_what_it_does_with_operators(operated: Replica) -> None:
    assert refused(operated, OPERATED_DOES) == {}


def test_the_policies_do_not_restrict_other_users(replica: Replica) -> None:
    labelled = {"metadata": {"labels": {"example.test/x": "y"}}}
    assert replica.team.patched("pod/worker", labelled, dryRun="All") == ""


@pytest.fixture(scope="module")
def policies(kubectl: Kubectl) -> dict[str, Object]:
    shipped = [one for one in built(kubectl, INSTALLED) if one["kind"] == "ValidatingAdmissionPolicy"]
    return {one["metadata"]["name"]: one["spec"] for one in shipped}


def test_the_stored_policies_equal_the_shipped_ones(kubectl: Kubectl, policies: dict[str, Object]) -> None:
    stored = kubectl.get("validatingadmissionpolicies", *policies)["items"]
    assert {one["metadata"]["name"]: one["spec"] for one in stored} == policies


def test_the_api_server_checks_the_policies_without_a_warning(kubectl: Kubectl, policies: dict[str, Object]) -> None:
    def checked() -> list[Object]:
        found = kubectl.get("validatingadmissionpolicies", *policies)["items"]
        return [one["status"]["typeChecking"] for one in found if "observedGeneration" in one.get("status", {})]

    until(lambda: len(checked()) == len(policies))
    assert checked() == [{}] * len(policies)
