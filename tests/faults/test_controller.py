"""The controller killed, stopped, and made to raise in each handler, under load: no admission notices it."""

from __future__ import annotations

import contextlib
import json
import signal
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.awaiting import until
from tests.cluster import operators
from tests.faults.direct import RefusedError
from tests.faults.raising import RAISES, handlers
from tests.faults.stage import Stage, controller_of, new_stage
from webhook.kube import names
from webhook.kube.clock import utc_now

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cluster.kubectl import Object

# The load sends 100 Jobs a second; each passes /mutate and /validate: 200 admissions a second.
LONG = 300  # Jobs: what is sent while a controller is stopped
AT_THE_END = "webhook.kube.lease:Lease.release"  # what a controller does last
# What happens some time after a Job has ended.
LATER = (
    "webhook.tracking.finished_jobs:FinishedJobs.look_at",
    "webhook.controller.retries:RetryController.try_to_process",
)
MOST_LIVES = 5
NAMESPACE, LEAVING = "raised", "leaves"  # opted in for ever, and again and again
CRDS = ("jobsets.jobset.x-k8s.io", "workflows.argoproj.io", "workloads.kueue.x-k8s.io")
CRD_LIST = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TIME = "2026-01-01T00:00:00Z"
CONTAINER = {"name": "main", "image": "example.test/main"}
POD_SPEC = {"restartPolicy": "Never", "containers": [CONTAINER]}
EXITED = {"exitCode": 1, "reason": "Error", "startedAt": TIME, "finishedAt": TIME}
OPTED_IN = {"labels": {names.PROFILE: "default"}}


@pytest.mark.hardest
def test_controllers_that_are_stopped_or_killed_lose_no_admission(stage: Stage) -> None:
    replicas = stage.two_replicas()
    with stage.under_load("SIGSTOP, then SIGKILL of all controllers") as watched:
        for replica in replicas:
            replica.controller.send_signal(signal.SIGSTOP)
        watched.until_sent(LONG)
        for replica in replicas:
            replica.controller.send_signal(signal.SIGCONT)
        watched.until_sent()
        for replica in [*replicas]:
            stage.restart_controller(replica)
            watched.until_sent()
    assert watched.tally.lost == 0, watched.tally


class Raised:
    """A replica whose handlers raise as a file says, and objects of users that make each of them run."""

    def __init__(self, stage: Stage, folder: Path) -> None:
        self.stage = stage
        self.api = stage.api
        self.folder = folder
        self.lives = 0
        self.raise_in("")
        for name in CRDS:
            stage.api.create(CRD_LIST, json.loads((operators.fetch().crds / f"{name}.json").read_text()))
        for namespace in (NAMESPACE, LEAVING):
            stage.kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, **OPTED_IN}})
            self.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", "ServiceAccount", "default")
        self.replica = stage.start(f"--raising={folder}")
        stage.until_endpoints(self.replica)
        stage.until_effective()
        until(lambda: self.metric("retry_policy_ledger_leading") == 1)

    def raise_in(self, handler: str) -> None:
        """Let a handler of both programs raise from now on; none if `handler` is empty."""
        (self.folder / "raising.new").write_text(handler)
        (self.folder / "raising.new").rename(self.folder / "raising")

    def has_raised(self, handler: str) -> bool:
        """Return True if a handler has raised in the controller."""
        log = self.stage.processes.log(controller_of(self.replica.name))
        return f"{RAISES} {handler}\n" in log.read_text()

    def metric(self, name: str) -> float:
        """Return a metric of the controller."""
        lines = self.replica.measured().splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))

    def live(self, handler: str) -> bool:
        """Let objects come, end and go, also while watches are broken; return True once a handler has raised."""
        self.lives += 1
        name, gap = f"life-{self.lives}", self.folder / "gap"
        gap.unlink(missing_ok=True)  # of a life that a failure ended
        self.change(LEAVING, {"metadata": OPTED_IN})
        for namespace in (NAMESPACE, LEAVING):
            self.fail_a_pod(namespace, f"{name}-fails")
        self.start_pods(f"{name}-runs")
        self.create_others(name)
        self.until_counted(handler, f"{name}-fails")
        self.change(LEAVING, {"metadata": {"labels": {names.PROFILE: None}}})
        gap.touch()
        until(lambda: self.metric('retry_policy_cache_age_seconds{list="pods"}') > 0)
        self.delete_jobs(NAMESPACE, f"{name}-runs")
        gap.unlink()
        until(lambda: self.metric('retry_policy_cache_age_seconds{list="pods"}') == 0 or self.has_raised(handler))
        self.end(f"{name}-fails", asks=handler.startswith("webhook.retry"))
        if handler in LATER:
            until(lambda: self.has_raised(handler))
        self.change(LEAVING, {"metadata": OPTED_IN})
        for namespace in (NAMESPACE, LEAVING):
            self.delete_jobs(namespace, f"{name}-fails")
        self.delete_others(name)
        return self.has_raised(handler)

    def until_counted(self, handler: str, name: str) -> None:
        """Wait until the Job has an Account, or a handler has raised."""
        until(lambda: self.has_raised(handler) or self.account_of(name) is not None)

    def account_of(self, job: str) -> Object | None:
        found = self.api.get(f"/apis/retry-policy.dev/v1alpha1/namespaces/{NAMESPACE}/accounts")["items"]
        return next((one for one in found if one["spec"]["name"] == job), None)

    def start_pods(self, job: str) -> None:
        """Create a Job with a pod that runs, and one that cannot start."""
        uid = self.create_job(NAMESPACE, job)
        self.create_pod(NAMESPACE, job, uid, f"{job}-0")
        self.api.merge(f"/api/v1/namespaces/{NAMESPACE}/pods/{job}-0/status", {"status": {"phase": "Running"}})
        self.create_pod(NAMESPACE, job, uid, f"{job}-1", nodeName=f"node-of-{job}")
        scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": TIME}
        state = {"waiting": {"reason": "ImagePullBackOff"}}
        status = {"conditions": [scheduled], "containerStatuses": [{**STATUS_OF_CONTAINER, "state": state}]}
        self.api.merge(f"/api/v1/namespaces/{NAMESPACE}/pods/{job}-1/status", {"status": status})

    def fail_a_pod(self, namespace: str, job: str) -> None:
        """Create a Job with a pod that fails by a bug, on a node that does not exist."""
        uid = self.create_job(namespace, job)
        self.create_pod(namespace, job, uid, f"{job}-0", nodeName=f"node-of-{job}")
        status = {"phase": "Failed", "containerStatuses": [{**STATUS_OF_CONTAINER, "state": {"terminated": EXITED}}]}
        self.api.merge(f"/api/v1/namespaces/{namespace}/pods/{job}-0/status", {"status": status})

    def create_job(self, namespace: str, name: str) -> str:
        """Create a Job; return its uid."""
        spec = {"template": {"spec": POD_SPEC}, "completionMode": "Indexed", "completions": 2, "parallelism": 2}
        metadata = {"annotations": {names.RETRYABLE: "true"}}
        path = f"/apis/batch/v1/namespaces/{namespace}/jobs"
        return self.create(path, "Job", name, metadata, spec=spec)

    def create_pod(self, namespace: str, job: str, uid: str, name: str, **spec: object) -> None:
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": uid, "controller": True}
        metadata = {"ownerReferences": [owner], "labels": {"batch.kubernetes.io/job-name": job}}
        self.create(f"/api/v1/namespaces/{namespace}/pods", "Pod", name, metadata, spec={**POD_SPEC, **spec})

    def end(self, job: str, *, asks: bool) -> None:
        """Let a Job end; `asks`: and request its retry, which waits until the controller knows the Job."""
        now = utc_now().isoformat(timespec="seconds").replace("+00:00", "Z")
        path = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/{job}"
        why = {"status": "True", "reason": "BackoffLimitExceeded", "lastTransitionTime": TIME, "lastProbeTime": TIME}
        conditions = [{"type": kind, **why} for kind in ("FailureTarget", "Failed")]
        self.api.merge(f"{path}/status", {"status": {"startTime": TIME, "conditions": conditions}})
        if not asks:
            return
        with contextlib.suppress(RefusedError):  # the controller raises, and does not answer in time
            self.api.merge(path, {"metadata": {"annotations": {names.RETRY_REQUESTED_AT: now}}})

    def create_others(self, name: str) -> None:
        """Create a JobSet, a Workflow with a pod, and a Workload of Kueue."""
        job_set = {"replicatedJobs": [{"name": "a", "template": {"spec": {"template": {"spec": POD_SPEC}}}}]}
        self.create(JOB_SETS, "JobSet", name, spec=job_set, api_version="jobset.x-k8s.io/v1alpha2")
        workflow = {"entrypoint": "main", "templates": [{"name": "main", "container": CONTAINER}]}
        uid = self.create(WORKFLOWS, "Workflow", name, spec=workflow, api_version="argoproj.io/v1alpha1")
        owner = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": name, "uid": uid, "controller": True}
        metadata = {"ownerReferences": [owner], "labels": {"workflows.argoproj.io/workflow": name}}
        self.create(f"/api/v1/namespaces/{NAMESPACE}/pods", "Pod", f"{name}-of-workflow", metadata, spec=POD_SPEC)
        queued = {"podSets": [{"name": "main", "count": 1, "template": {"spec": POD_SPEC}}]}
        metadata = {"ownerReferences": [{**owner, "controller": True}]}
        self.create(WORKLOADS, "Workload", name, metadata, spec=queued, api_version="kueue.x-k8s.io/v1beta2")

    def delete_others(self, name: str) -> None:
        for path in (JOB_SETS, WORKFLOWS, WORKLOADS):
            self.api.delete(f"{path}/{name}")
        self.api.delete(f"/api/v1/namespaces/{NAMESPACE}/pods/{name}-of-workflow?gracePeriodSeconds=0")

    def delete_jobs(self, namespace: str, name: str) -> None:
        """Delete a Job and its pods, and its Account, which a garbage collector would delete."""
        for number in range(2):
            self.api.delete(f"/api/v1/namespaces/{namespace}/pods/{name}-{number}?gracePeriodSeconds=0")
        self.api.delete(f"/apis/batch/v1/namespaces/{namespace}/jobs/{name}?propagationPolicy=Background")
        if namespace == NAMESPACE and (found := self.account_of(name)) is not None:
            path = f"/apis/retry-policy.dev/v1alpha1/namespaces/{NAMESPACE}/accounts"
            self.api.delete(f"{path}/{found['metadata']['name']}")

    def change(self, namespace: str, patch: Object) -> None:
        self.api.merge(f"/api/v1/namespaces/{namespace}", patch)

    def create(  # noqa: PLR0917 - the parts of an object
        self,
        path: str,
        kind: str,
        name: str,
        metadata: Object | None = None,
        spec: Object | None = None,
        api_version: str = "",
    ) -> str:
        """Create an object; return its uid."""
        version = api_version or {"Job": "batch/v1"}.get(kind, "v1")
        root: Object = {"apiVersion": version, "kind": kind, "metadata": {"name": name, **(metadata or {})}}
        found = self.api.create(path, root if spec is None else {**root, "spec": spec})
        return str(found["metadata"]["uid"])


STATUS_OF_CONTAINER = {"name": "main", "image": "example.test/main", "imageID": "", "ready": False, "restartCount": 0}
JOB_SETS = f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{NAMESPACE}/jobsets"
WORKFLOWS = f"/apis/argoproj.io/v1alpha1/namespaces/{NAMESPACE}/workflows"
WORKLOADS = f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{NAMESPACE}/workloads"


@pytest.fixture(scope="module")
def raised(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Raised]:
    with new_stage(requested_retries=True) as stage:
        policy = yaml.safe_load(stage.policy["data"]["policy.yaml"])
        policy["profiles"]["default"]["startTimeout"] = "1m"
        stage.policy = {**stage.policy, "data": {"policy.yaml": yaml.safe_dump(policy)}}
        stage.reset()
        yield Raised(stage, tmp_path_factory.mktemp("raised"))


@pytest.mark.parametrize("handler", [one for one in handlers() if one != AT_THE_END])
def test_programs_that_raise_in_a_handler_lose_no_admission_and_go_on(raised: Raised, handler: str) -> None:
    replica = raised.replica
    with raised.stage.under_load(f"{handler.partition(':')[2]} raises") as watched:
        raised.raise_in(handler)
        try:
            assert any(raised.live(handler) for _ in range(MOST_LIVES)), f"{handler} was never called"
        finally:
            raised.raise_in("")
    assert watched.tally.lost == 0, watched.tally
    assert replica.controller.poll() is None
    assert replica.running
