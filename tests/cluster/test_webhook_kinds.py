"""Every kind with the CRD of its project: what is stored and denied, and from where the attempt is read."""

from __future__ import annotations

import json
import os
import secrets
from contextlib import ExitStack, contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.awaiting import until
from tests.cluster import command_line, train_job_crd
from tests.cluster.conftest import new_namespace, with_operators
from tests.cluster.installation import BASE
from tests.cluster.manifests import job, pod
from tests.cluster.namespace import SERVER_SIDE, Api, Namespace
from tests.cluster.objects import noted, required
from tests.cluster.test_webhook_jobs import OFF_SPOT
from tests.documents import documents_of
from webhook.kube import names
from webhook.objects import problem
from webhook.objects.patch import Editor
from webhook.rules.retries import allow
from webhook.systems.job import spec as batch
from webhook.systems.kind_spec import Budget
from webhook.systems.kinds import KINDS
from webhook.systems.tekton import spec as tekton
from webhook.systems.trainer import spec as trainer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.kubectl import Kubectl, Object
    from webhook.systems.kind_spec import KindSpec

pytestmark = with_operators

FOLDER: Final = BASE.parent / "samples" / "kinds"
NIGHTLY: Final = {
    "apiVersion": "batch/v1",
    "kind": "CronJob",
    "metadata": {"name": "nightly"},
    "spec": {"schedule": "0 3 * * *", "jobTemplate": {"spec": job("nightly", backoffLimit=3)["spec"]}},
}
DOCUMENTS: Final[list[Object]] = [
    *(document for file in sorted(FOLDER.glob("*.yaml")) for document in documents_of(file.read_text())),
    job("train", backoffLimit=3),
    NIGHTLY,
]
ADMITTED: Final = [kind for kind in KINDS.values() if kind.admitted]
OF_PODS: Final = [kind for kind in KINDS.values() if kind.owns_pods]


def name_of(kind: KindSpec) -> str:
    return f"{kind.kind}.{kind.group}"


def samples_of(kind: KindSpec) -> list[Object]:
    """Return copies of a kind's samples with new names."""
    return [
        named(document)
        for document in DOCUMENTS
        if (document["apiVersion"].rpartition("/")[0], document["kind"]) == (kind.group, kind.kind)
    ]


def named(document: Object) -> Object:
    metadata = {**document["metadata"], "name": f"{document['metadata']['name']}-{secrets.token_hex(3)}"}
    return deepcopy({**document, "metadata": metadata})


@pytest.fixture(params=ADMITTED, ids=name_of)
def kind(request: pytest.FixtureRequest) -> KindSpec:
    found: KindSpec = request.param
    return found


@pytest.fixture(scope="module")
def team(kubectl: Kubectl, api: Api) -> Namespace:
    """One opted-in namespace for all tests: each creates samples with new names."""
    return new_namespace("kinds", {names.PROFILE: "default"}, kubectl, api)


@pytest.fixture
def samples(kind: KindSpec, kubectl: Kubectl) -> Iterator[list[Object]]:
    """Yield the samples of a kind; delete cluster-scoped ones when the test ends."""
    with storable(kind, kubectl) as found:
        yield found


@pytest.fixture
def all_samples(kubectl: Kubectl) -> Iterator[list[Object]]:
    """Yield the samples of all kinds, as `samples` does."""
    with ExitStack() as stack:
        yield [sample for kind in ADMITTED for sample in stack.enter_context(storable(kind, kubectl))]


@contextmanager
def storable(kind: KindSpec, kubectl: Kubectl) -> Iterator[list[Object]]:
    found = samples_of(kind)
    assert found, f"{name_of(kind)} has no sample in {FOLDER}"
    if kind in {tekton.PIPELINE_RUN, tekton.TASK_RUN}:
        for sample in found:
            sample["spec"]["managedBy"] = "retry-policy.dev/nobody"  # otherwise its controller would change it
    with train_job_crd.unchanged(kubectl) if kind is trainer.TRAIN_JOB else nullcontext():
        yield found
    if not kind.namespaced:
        created = [sample["metadata"]["name"] for sample in found]
        kubectl.run("delete", f"{kind.resource}.{kind.group}", *created, "--ignore-not-found", "--wait=false")


def rendered(samples: list[Object]) -> list[Object]:
    """Return the output of `retry-policy render` for objects."""
    policy = f"--policy={os.environ['RETRY_POLICY_TEST_POLICY']}"
    everything = json.dumps({"apiVersion": "v1", "kind": "List", "items": samples})
    done = command_line.run("render", "-f", "-", "-o", "json", policy, stdin=everything)
    assert done.exit_code == 0, done.stderr
    return list(json.loads(done.stdout)["items"])


def contains(stored: Any, made: Any) -> bool:
    """Return True if `stored` has all fields of `made`; it may have more fields, which the API server has defaulted."""
    if made in ({}, []):
        return not stored
    if isinstance(made, dict):
        return isinstance(stored, dict) and all(contains(stored.get(key), value) for key, value in made.items())
    if isinstance(made, list):
        return isinstance(stored, list) and len(stored) == len(made) and all(map(contains, stored, made))
    return bool(stored == made)


def without_policy_record(found: Object) -> Object:
    """Return an object without the value of its annotation `policy`, which may contain defaulted fields."""
    annotations = found["metadata"].get("annotations") or {}
    said = {**annotations, **({names.POLICY: "there"} if names.POLICY in annotations else {})}
    return {**found, "metadata": {**found["metadata"], "annotations": said}}


def authored(found: Object) -> Any:
    """Return an object without status and empty fields, and with only the labels and annotations of its metadata."""
    metadata = {key: found["metadata"].get(key) for key in ("annotations", "labels")}
    return without_empty({**found, "metadata": metadata, "status": None})


def without_empty(value: Any) -> Any:
    """Return a copy without empty objects: webhooks of some systems add them when an object is created."""
    if isinstance(value, dict):
        return {key: one for key, one in zip(value, map(without_empty, value.values()), strict=True) if one != {}}
    return list(map(without_empty, value)) if isinstance(value, list) else value


def test_every_kind_is_stored_as_render_prints_it_and_a_dry_run_shows_the_same(
    team: Namespace, samples: list[Object]
) -> None:
    for sample, made in zip(samples, rendered(samples), strict=True):
        for flags in (("--dry-run=server",), ()):
            assert contains(without_policy_record(team.create(sample, *flags)), without_policy_record(made))


def test_an_unchanged_manifest_of_every_kind_can_be_applied_again(team: Namespace, all_samples: list[Object]) -> None:
    for sample in all_samples:
        if sample["kind"] == "JobSet":  # else the patch removes the default of JobSet's webhook, which JobSet refuses
            sample["spec"]["replicatedJobs"][0]["template"]["spec"]["completionMode"] = "Indexed"
    stored, again = (team.apply_all(all_samples) for _ in range(2))
    assert len(stored) == len(all_samples)
    assert [*map(authored, again)] == [*map(authored, stored)]


def test_an_unchanged_manifest_of_every_kind_can_be_applied_again_server_side(
    team: Namespace, samples: list[Object]
) -> None:
    stored, again = (team.apply_all(samples, *SERVER_SIDE) for _ in range(2))
    assert [*map(authored, again)] == [*map(authored, stored)]


def test_11_retries_are_denied_and_10_accepted_in_every_retry_field(
    team: Namespace, kind: KindSpec, samples: list[Object]
) -> None:
    fields = []
    for sample in samples:
        of_jobs = [Budget((*one.path, batch.retry_field(one.spec)), None) for one in kind.jobs(sample)]
        for budget in [*of_jobs, *kind.budgets(sample)]:
            fields.append(problem.field(budget.path))
            refusal = team.refusal(with_retries(sample, budget, 11))
            assert "denied the request" in refusal
            assert f"{fields[-1]}: 11 retries exceed the limit of 10" in refusal
            assert team.refusal(with_retries(sample, budget, 10)) == ""
    assert fields or not (kind.retry_fields or kind.job_specs)


def with_retries(sample: Object, budget: Budget, retries: int) -> Object:
    changed = Editor(deepcopy(sample))
    allow(budget, retries, changed)
    return changed.root


def test_a_cluster_workflow_template_is_checked_only_if_it_has_the_profile_label(team: Namespace) -> None:
    (template,) = samples_of(KINDS["argoproj.io", "ClusterWorkflowTemplate"])
    template["spec"]["templates"][0]["containerSet"]["retryStrategy"]["retries"] = 99
    create = ("create", "--dry-run=server", "--filename=-")
    assert "98 retries exceed the limit of 10" in team.run(*create, stdin=template).stderr
    del template["metadata"]["labels"]
    assert (team.run(*create, stdin=template).returncode, team.run(*create, stdin=template).stderr) == (0, "")


@dataclass(frozen=True, slots=True)
class Signal:
    """A system's signal of an attempt, on the pod and in its owner's status, and the annotations that follow from it.

    Without a signal the source is Unknown, the attempt is the first, and the retries are the profile's default.
    """

    source: str = "Unknown"
    attempt: int = 0
    retries: int = 3
    suffix: str = ""  # of the pod's name, after the name of its owner
    metadata: Object = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    status: Object = field(default_factory=dict)
    kind: str = ""  # if the owner reference spells the kind differently


TASK_ACTION: Final[Object] = {
    "apiVersion": "flyte.org/v1",
    "kind": "TaskAction",
    "metadata": {"name": "train"},
    "spec": {"runName": "train", "project": "vision", "domain": "development", "actionName": "a0"},
}
RAY_CLUSTER: Final[Object] = {
    "apiVersion": "ray.io/v1",
    "kind": "RayCluster",
    "metadata": {"name": "cluster"},
    "spec": {"headGroupSpec": {"rayStartParams": {}, "template": {"spec": pod("head")["spec"]}}},
}
OF_SPARK: Final = {
    "labels": {
        "sparkoperator.k8s.io/app-name": "ignored",  # because the pod has a controller
        "sparkoperator.k8s.io/launched-by-spark-operator": "true",
        "sparkoperator.k8s.io/submission-id": "second",
    }
}
ONE_RUN: Final = {
    "executionAttempts": 1,
    "submissionID": "first",
    "applicationState": {"state": "PENDING_RERUN"},
    "driverInfo": {},
    "lastSubmissionAttemptTime": None,
    "terminationTime": None,
}
NEXT: Final = {"FLYTE_ATTEMPT_NUMBER": "1"}
OF_A_WORKER: Final = {"labels": {"training.kubeflow.org/replica-type": "worker"}}
OF_A_MASTER: Final = {"labels": {"training.kubeflow.org/replica-type": "master"}}
# The retries are those in the samples.
SIGNALS: Final = {
    "Job.batch": Signal("JobStatus", 1, 3, status={"failed": 1}),
    "TaskRun.tekton.dev": Signal("Tekton", 1, 3, suffix="-pod-retry1"),
    "Workflow.argoproj.io": Signal("Argo", 1, 1, metadata={"annotations": {"workflows.argoproj.io/node-name": "w(1)"}}),
    "PyTorchJob.kubeflow.org": Signal("Kubeflow", metadata=OF_A_WORKER),
    "TFJob.kubeflow.org": Signal("Kubeflow", retries=2, metadata=OF_A_WORKER),
    "MPIJob.kubeflow.org": Signal(),
    "XGBoostJob.kubeflow.org": Signal("Kubeflow", retries=0, metadata=OF_A_MASTER),
    "PaddleJob.kubeflow.org": Signal("Kubeflow", metadata=OF_A_WORKER),
    "JAXJob.kubeflow.org": Signal("Kubeflow", retries=1, metadata=OF_A_WORKER),
    "RayCluster.ray.io": Signal("RayJob", 1, 2, status={"failed": 1}),
    "SparkApplication.sparkoperator.k8s.io": Signal("Spark", 1, 3, metadata=OF_SPARK, status=ONE_RUN),
    "SparkApplication.spark.apache.org": Signal(
        "ApacheSpark", 1, 3, status={"currentAttemptSummary": {"attemptInfo": {"id": 1, "restartCounter": 1}}}
    ),
    "AppWrapper.workload.codeflare.dev": Signal("AppWrapper", 1, 2, status={"resettingCount": 1}),
    "Job.batch.volcano.sh": Signal("Volcano", 1, 3, metadata={"annotations": {"volcano.sh/job-retry-count": "1"}}),
    "FlyteWorkflow.flyte.lyft.com": Signal(
        "Flyte", 1, 2, suffix="-n0-1", metadata={"labels": {"node-id": "n0"}}, variables=NEXT, kind="flyteworkflow"
    ),
    "TaskAction.flyte.org": Signal("Flyte", 1, 3, variables=NEXT),
}


def reference(owner: Object) -> Object:
    metadata = {key: owner["metadata"][key] for key in ("name", "uid")}
    return {"apiVersion": owner["apiVersion"], "kind": owner["kind"], **metadata, "controller": True}


def owner_of(kind: KindSpec, team: Namespace, status: Object | None = None) -> Object:
    """Create the controller of a pod with this status; for a RayCluster its own controller has the status."""
    if kind.kind == "RayCluster":
        (ray_job,) = samples_of(KINDS["ray.io", "RayJob"])
        above = with_status(team, team.create(ray_job), status)
        cluster = named(RAY_CLUSTER)
        cluster["metadata"]["ownerReferences"] = [reference(above)]
        return team.create(cluster)
    manifest = named(TASK_ACTION) if kind.kind == "TaskAction" else samples_of(kind)[0]
    if kind is KINDS["batch", "Job"]:
        manifest["spec"]["suspend"] = True  # so that the Job controller does not change the status
    return with_status(team, team.create(manifest), status)


def with_status(team: Namespace, found: Object, status: Object | None) -> Object:
    if status:
        kind, group = found["kind"], found["apiVersion"].rpartition("/")[0]
        path = f"{KINDS[group, kind].path(team.name, found['metadata']['name'])[1:]}/status"
        answer = team.api.send("PATCH", path, {"status": status})
        assert answer["kind"] == kind, answer
    return found


@pytest.mark.parametrize("kind", OF_PODS, ids=name_of)
def test_the_attempt_and_max_retries_of_a_pod_are_read_from_the_signals_of_its_owner(
    team: Namespace, kind: KindSpec
) -> None:
    signal = SIGNALS[name_of(kind)]
    owner = owner_of(kind, team, signal.status)
    made = pod(owner["metadata"]["name"] + signal.suffix)
    of_owner = {**reference(owner), **({"kind": signal.kind} if signal.kind else {})}
    made["metadata"] |= {**deepcopy(signal.metadata), "ownerReferences": [of_owner]}
    made["spec"]["containers"][0]["env"] = [{"name": name, "value": value} for name, value in signal.variables.items()]
    expected = (signal.source, str(signal.attempt), str(signal.retries))
    # The webhook knows a Job from its watch, which may deliver the status later than kubectl returns.
    until(lambda: not signal.status or told_of(team.create(made, "--dry-run=server")) == expected)
    assert told_of(team.create(made)) == expected


def told_of(made: Object) -> tuple[str, str, str]:
    notes = noted(made)
    return notes["attempt-source"], notes["attempt"], notes["max-retries"]


def test_a_workflow_step_without_retries_is_placed_on_demand(team: Namespace) -> None:
    spec = {"entrypoint": "main", "templates": [{"name": "main", "container": {"image": "example.invalid/main"}}]}
    workflow: Object = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "spec": spec}
    owner = team.create(named({**workflow, "metadata": {"name": "once"}}))
    step = pod(f"{owner['metadata']['name']}-main")
    step["metadata"] |= {
        "annotations": {"workflows.argoproj.io/node-name": owner["metadata"]["name"]},
        "ownerReferences": [reference(owner)],
    }
    stored = team.create(step)
    assert (noted(stored)["placement"], noted(stored)["max-retries"]) == ("OnDemand", "0")
    assert required(stored) == [{"matchExpressions": [OFF_SPOT]}]
    step["metadata"] |= {"name": f"{step['metadata']['name']}-again"}
    step["metadata"]["annotations"][names.INTERRUPTIBLE] = "true"
    assert noted(team.create(step))["placement"] == "Spot"
