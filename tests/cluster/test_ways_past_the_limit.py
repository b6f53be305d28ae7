"""Ways past the retry limit and the budgets that an author of a namespace may try, each refused, undone or counted.

The names of the rows say what is tried. More, of Jobs and JobSets alone: test_no_way_around_the_limit.py.
"""

from __future__ import annotations

import json
from copy import deepcopy
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.cluster.conftest import opted_in, with_operators
from tests.cluster.installation import BASE
from tests.cluster.manifests import exits, job, job_set, replicated_job
from tests.cluster.namespace import MERGE, SERVER_SIDE
from tests.cluster.objects import account, condition
from tests.documents import documents_of
from tests.objects import exit_codes
from webhook.kube import names
from webhook.systems import account_object as accounts

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.conftest import NewNamespace
    from tests.cluster.kubectl import Object
    from tests.cluster.namespace import Namespace

Path = tuple[str | int, ...]

UNLIMITED: Final = 2147483647
CENTURIES: Final = 9223372036854775807
KINDS: Final = BASE.parent / "samples" / "kinds"
IGNORES_ALL: Final = {"rules": [exit_codes("Ignore", "NotIn", 0)]}
FREE: Final = {"rules": [exit_codes("Ignore", "In", 75)]}
SKIPPED: Final = {names.SKIP: "true"}
MANY: Final = "1000 retries exceed the limit of 10"
STEP: Final = {"name": "main", "container": {"image": "example.invalid/main"}}
TRIES: Final = "{{workflow.parameters.n}}"


@cache
def samples() -> dict[str, Object]:
    """Return an object of each kind, by its kind and the first part of its group."""
    found: dict[str, Object] = {}
    for file in sorted(KINDS.glob("*.yaml")):
        for root in documents_of(file.read_text()):
            found.setdefault(f"{root['kind']} of {root['apiVersion'].partition('.')[0]}", root)
    return found


def sample(kind: str, *changes: tuple[Path, Any], version: str = "") -> Object:
    """Return an object of a kind with other values at some paths."""
    root = deepcopy(samples()[kind])
    if version:
        root["apiVersion"] = version
    for (*outer, last), value in changes:
        inner: Any = root
        for part in outer:
            inner = inner[part]
        inner[last] = value
    return root


def workflow(*templates: Object, **spec: Any) -> Object:
    """Return a Workflow that no controller runs."""
    spec = {"entrypoint": "main", "suspend": True, "templates": [*templates] or [STEP], **spec}
    return {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": {"name": "train"}, "spec": spec}


def retried(limit: Any, **more: Any) -> Object:
    return {**STEP, "retryStrategy": {"limit": limit, **more}}


def with_status(**status: Any) -> Object:
    return {**workflow(), "status": status}


def said(root: Object, **annotations: str) -> Object:
    """Return an object with annotations of ours."""
    own = {names.PREFIX + key.replace("_", "-"): value for key, value in annotations.items()}
    return {**root, "metadata": {**root["metadata"], "annotations": own}}


def with_container(root: Object, field: str, **container: Any) -> Object:
    """Return a Job with one more container in this field of its pod spec."""
    made = {"name": "other", "image": "example.invalid/other", **container}
    root["spec"]["template"]["spec"].setdefault(field, []).append(made)
    return root


def crowded(root: Object) -> Object:
    tolerations = [{"key": f"example.test/{number}", "operator": "Exists"} for number in range(6_000)]
    root["spec"]["template"]["spec"]["tolerations"] = tolerations
    return root


IN_SCHEDULED: Final = ("spec", "workflowSpec")
FALLEN: Final = {"action": "RestartAllContainers", "exitCodes": {"operator": "NotIn", "values": [0]}}
PARAMETER: Final = {"arguments": {"parameters": [{"name": "n", "value": "1000"}]}}
# For each: the object that is refused, and a part of the message.
REFUSED_JOBS: Final[dict[str, tuple[Object, str]]] = {
    "a deadline of centuries lets it ignore every failure": (
        job("train", podFailurePolicy=IGNORES_ALL, activeDeadlineSeconds=CENTURIES),
        "ignores 255 of the 255 exit codes, so failures without limit cost no retry",
    ),
    "a deadline of centuries lets it ignore failures that nobody counts": (
        job("train", podFailurePolicy=FREE, activeDeadlineSeconds=CENTURIES, managedBy="example.test/another"),
        "failures cost no retry, and no ledger counts them",
    ),
    "it is skipped and has a deadline of centuries": (
        said(job("train", podFailurePolicy=FREE, activeDeadlineSeconds=CENTURIES), skip="true"),
        "failures cost no retry, and no ledger counts them",
    ),
    "its template is skipped": (
        job("train", SKIPPED, podFailurePolicy=FREE),
        "failures cost no retry, and no ledger counts them",
    ),
    "it is skipped": (said(job("train", backoffLimit=99), skip="true"), "99 retries exceed the limit of 10"),
    "a container has a restartPolicy of its own": (
        with_container(job("train", backoffLimit=0), "containers", restartPolicy="Always"),
        "restarts the container in place without limit",
    ),
    "an init container restarts after each failure": (
        with_container(job("train", backoffLimit=0), "initContainers", restartPolicy="OnFailure"),
        "restarts the container in place without limit",
    ),
    "a rule of a sidecar restarts all containers": (
        with_container(
            job("train", backoffLimit=0), "initContainers", restartPolicy="Always", restartPolicyRules=[FALLEN]
        ),
        "restarts the container in place after all exit codes but 0",
    ),
    "its own budget is written in Arabic digits": (said(job("train"), max_retries="٩٩"), "must be a whole number"),
    "its own budget is written as a power of ten": (said(job("train"), max_retries="1e3"), "must be a whole number"),
    "its own budget is a negative number": (said(job("train"), max_retries="-4294966296"), "must be a whole number"),
    "its own budget of disruptions is huge": (said(job("train"), max_disruptions="99999"), "max-disruptions"),
    "a CronJob hides the limit in its template": (
        {
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "metadata": {"name": "train"},
            "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": job("x", backoffLimit=99)["spec"]}},
        },
        "spec.jobTemplate.spec.backoffLimit: 99 retries exceed the limit of 10",
    ),
    "its pods are too crowded for the rules": (
        crowded(job("train", podFailurePolicy=FREE)),
        "spec.template.spec.tolerations: has ",
    ),
    "every index fails as often as it likes": (
        job("train", completionMode="Indexed", completions=2, backoffLimitPerIndex=UNLIMITED, backoffLimit=3),
        "spec.backoffLimitPerIndex: 2147483647 retries exceed the limit of 10",
    ),
}
REFUSED_OF_OTHER_KINDS: Final[dict[str, tuple[Object, str]]] = {
    "Argo: the limit is a parameter of the same Workflow": (workflow(retried(TRIES), **PARAMETER), MANY),
    "Argo: the limit is an expression over a parameter": (
        workflow(retried("{{=asInt(workflow.parameters['n'])}}"), **PARAMETER),
        MANY,
    ),
    "Argo: the limit is an input of its template": (
        workflow({**retried("{{inputs.parameters.n}}"), "inputs": {"parameters": [{"name": "n", "default": "1000"}]}}),
        MANY,
    ),
    "Argo: the limit is a parameter, and an expression with a tag cannot be bounded": (
        workflow(retried(TRIES, expression="{{=true}}")),
        "may become more than the limit of 10",
    ),
    "Argo: the limit is a negative number that 32 bits make positive": (
        workflow(retried("-4294966296")),
        "unlimited retries exceed the limit of 10",
    ),
    "Argo: the limit is in a template within a step": (
        workflow({"name": "main", "steps": [[{"name": "a", "inline": retried(1000)}]]}),
        "spec.templates[0].steps[0][0].inline.retryStrategy.limit: " + MANY,
    ),
    "Argo: the limit is in the status of a new Workflow": (
        with_status(storedWorkflowTemplateSpec={"templates": [retried(1000)]}),
        MANY,
    ),
    "Argo: the limit is in a template in the status of a new Workflow": (
        with_status(storedTemplates={"namespaced/x/main": retried(1000)}),
        MANY,
    ),
    "Argo: a key is written in another case": (
        sample("CronWorkflow of argoproj", ((*IN_SCHEDULED, "templates", 0, "RetryStrategy"), {"limit": 1000})),
        "may be read as retryStrategy",
    ),
    "Argo: the limit of a CronWorkflow is a parameter": (
        sample(
            "CronWorkflow of argoproj",
            ((*IN_SCHEDULED, "templates", 0, "retryStrategy", "limit"), TRIES),
            ((*IN_SCHEDULED, "arguments"), PARAMETER["arguments"]),
        ),
        MANY,
    ),
    "Tekton: the task is in a pipeline within a pipeline": (
        sample(
            "PipelineRun of tekton",
            (("spec", "pipelineSpec", "tasks", 1, "pipelineSpec", "tasks", 0, "retries"), 1000),
        ),
        "spec.pipelineSpec.tasks[1].pipelineSpec.tasks[0].retries: " + MANY,
    ),
    "Tekton: the run is of an older version": (
        sample(
            "PipelineRun of tekton",
            (("spec", "pipelineSpec", "tasks", 0, "retries"), 1000),
            version="tekton.dev/v1beta1",
        ),
        MANY,
    ),
    "Tekton: the task is one of the last ones": (
        sample("PipelineRun of tekton", (("spec", "pipelineSpec", "finally", 0, "retries"), 1000)),
        "spec.pipelineSpec.finally[0].retries: " + MANY,
    ),
    "Tekton: a trigger makes the run": (
        sample(
            "TriggerTemplate of triggers",
            (("spec", "resourcetemplates", 0, "spec", "pipelineSpec", "tasks", 0, "retries"), 1000),
        ),
        MANY,
    ),
    "AppWrapper: it is reset again and again": (
        sample(
            "AppWrapper of workload",
            (("metadata", "annotations", "workload.codeflare.dev.appwrapper/retryLimit"), "1000"),
        ),
        MANY,
    ),
    "AppWrapper: it contains the Job": (
        sample("AppWrapper of workload", (("spec", "components", 0, "template", "spec", "backoffLimit"), 1000)),
        MANY,
    ),
    "Ray: the submission is repeated": (
        sample("RayJob of ray", (("spec", "submitterConfig", "backoffLimit"), 1000)),
        "spec.submitterConfig.backoffLimit: " + MANY,
    ),
    "Ray: a schedule makes the RayJob": (
        sample("RayCronJob of ray", (("spec", "jobTemplate", "backoffLimit"), 1000)),
        MANY,
    ),
    "Spark: the submission is repeated": (
        sample("SparkApplication of sparkoperator", (("spec", "restartPolicy", "onSubmissionFailureRetries"), 1000)),
        "spec.restartPolicy.onSubmissionFailureRetries: " + MANY,
    ),
    "Spark: it restarts always": (
        sample("ScheduledSparkApplication of sparkoperator", (("spec", "template", "restartPolicy", "type"), "Always")),
        "unlimited retries",
    ),
    "Volcano: a negative number is unlimited": (
        sample("Job of batch", (("spec", "tasks", 0, "maxRetry"), -1)),
        "spec.tasks[0].maxRetry: unlimited retries exceed",
    ),
    "Volcano: a flow makes the Job": (
        sample("JobTemplate of flow", (("spec", "maxRetry"), 1001)),
        "spec.maxRetry: " + MANY,
    ),
    "Kubeflow: the launcher is run again": (
        sample("MPIJob of kubeflow", (("spec", "runPolicy", "backoffLimit"), 1000)),
        "spec.runPolicy.backoffLimit: " + MANY,
    ),
    "Kubeflow: torchrun restarts its processes": (
        sample("PyTorchJob of kubeflow", (("spec", "elasticPolicy", "maxRestarts"), 1000)),
        "spec.elasticPolicy.maxRestarts: " + MANY,
    ),
    "Trainer: a runtime has the JobSet": (
        sample("TrainingRuntime of trainer", (("spec", "template", "spec", "failurePolicy", "maxRestarts"), 1000)),
        "spec.template.spec.failurePolicy.maxRestarts: " + MANY,
    ),
    "Flyte: the node is within an array of nodes": (
        sample(
            "FlyteWorkflow of flyte", (("spec", "nodes", "n1", "array", "SubNodeSpec", "retry", "minAttempts"), 1001)
        ),
        MANY,
    ),
}


@pytest.mark.parametrize("way", REFUSED_JOBS)
def test_a_job_is_refused_of_which(way: str, dry: NewNamespace) -> None:
    root, message = REFUSED_JOBS[way]
    assert message in opted_in(dry).refusal(root)


@with_operators
@pytest.mark.parametrize("way", REFUSED_OF_OTHER_KINDS)
def test_a_workload_is_refused(way: str, dry: NewNamespace) -> None:
    root, message = REFUSED_OF_OTHER_KINDS[way]
    assert message in opted_in(dry).refusal(root)


ELASTIC: Final = {"completionMode": "Indexed", "completions": 2, "parallelism": 2, "backoffLimitPerIndex": 10}
# For each: the stored Job, the kind of patch, the patch, and a part of the message.
REFUSED_CHANGES: Final[dict[str, tuple[Object, str, Any, str]]] = {
    "a strategic merge raises its limit": (
        job("train", backoffLimit=3),
        "application/strategic-merge-patch+json",
        {"spec": {"backoffLimit": 99}},
        "99 retries exceed the limit of 10",
    ),
    "a JSON patch raises its limit": (
        job("train", backoffLimit=3),
        "application/json-patch+json",
        [{"op": "replace", "path": "/spec/backoffLimit", "value": 99}],
        "99 retries exceed the limit of 10",
    ),
    "its deadline is raised to centuries": (
        job("train", podFailurePolicy=IGNORES_ALL, activeDeadlineSeconds=3600),
        MERGE,
        {"spec": {"activeDeadlineSeconds": CENTURIES}},
        "ignores 255 of the 255 exit codes",
    ),
    "its deadline is removed": (
        job("train", podFailurePolicy=IGNORES_ALL, activeDeadlineSeconds=3600),
        MERGE,
        {"spec": {"activeDeadlineSeconds": None}},
        "ignores 255 of the 255 exit codes",
    ),
    "it gets many more indexes": (
        job("train", **ELASTIC),
        MERGE,
        {"spec": {"completions": 10_000, "parallelism": 10_000}},
        "retries of all indexes together",
    ),
    "its own budget is raised": (
        job("train", backoffLimit=3),
        MERGE,
        {"metadata": {"annotations": {names.MAX_RETRIES: "99"}}},
        "99 is more than the 10 that profile 'default' allows",
    ),
    "it is skipped from now on": (
        job("train", backoffLimit=1, podFailurePolicy=FREE),
        MERGE,
        {"metadata": {"annotations": SKIPPED}},
        "failures cost no retry, and no ledger counts them",
    ),
}


@pytest.mark.parametrize("way", REFUSED_CHANGES)
def test_a_change_of_a_job_is_refused_when(way: str, namespace: NewNamespace) -> None:
    root, kind, patch, message = REFUSED_CHANGES[way]
    team = opted_in(namespace)
    team.create(root)
    assert message in team.patched("job/train", patch, kind=kind)


def test_another_field_manager_cannot_raise_the_limit_by_server_side_apply(namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    team.create(job("train", backoffLimit=3))
    root = {**job("train", backoffLimit=99)}
    result = team.run("apply", *SERVER_SIDE, "--force-conflicts", "-f", "-", stdin=json.dumps(root))
    assert "99 retries exceed the limit of 10" in result.stderr


IN_PLACE: Final = {"completions": 1, "parallelism": 1, "podReplacementPolicy": "Failed"}
STRATEGIES: Final = {
    "Recreate": "is unlimited, and JobSet 'set' has no restartStrategy InPlaceRestart",
    "InPlaceRestart": "is unlimited, and its pods do not count for JobSet 'set'",
}


@with_operators
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_job_cannot_be_unlimited_by_claiming_a_job_set_that_exists(strategy: str, namespace: NewNamespace) -> None:
    team = opted_in(namespace)
    part = replicated_job("main", backoffLimit=UNLIMITED if strategy == "InPlaceRestart" else 0, **IN_PLACE)
    policy = {"maxRestarts": 1, "restartStrategy": strategy}
    owner = team.create(job_set("set", part, suspend=True, failurePolicy=policy))
    root = job("train", backoffLimit=UNLIMITED)
    reference = {key: owner[key] for key in ("apiVersion", "kind")} | {"controller": True, "name": "set"}
    root["metadata"]["ownerReferences"] = [{**reference, "uid": owner["metadata"]["uid"]}]
    assert f"spec.backoffLimit: {STRATEGIES[strategy]}" in team.refusal(root)


@pytest.fixture(scope="session")
def team_of_editor(dry: NewNamespace) -> Namespace:
    team = opted_in(dry)
    team.bind("ClusterRole/admin", "User", "editor")
    return team


# For each: what an editor of the namespace tries.
FORBIDDEN: Final[dict[str, tuple[str, ...]]] = {
    "delete an Account": ("auth", "can-i", "delete", accounts.ACCOUNT.resource),
    "create an Account": ("auth", "can-i", "create", accounts.ACCOUNT.resource),
    "take the label off the namespace": ("auth", "can-i", "patch", "namespace"),
    "take failures out of a Job's status": ("auth", "can-i", "patch", "jobs", "--subresource=status"),
    "take an exit code out of a pod's status": ("auth", "can-i", "patch", "pods", "--subresource=status"),
    "take failures out of a JobSet's status": ("auth", "can-i", "patch", "jobsets", "--subresource=status"),
    "change the policy": ("auth", "can-i", "patch", "configmap/retry-policy", "--namespace=retry-policy-system"),
}


@with_operators
@pytest.mark.parametrize("way", FORBIDDEN)
def test_an_editor_of_a_namespace_has_no_right_to(way: str, team_of_editor: Namespace) -> None:
    result = team_of_editor.run(*FORBIDDEN[way], "--as=editor")
    assert result.returncode
    assert result.stdout.strip() == "no"


# The ledger fails a Job after the second failure that costs nothing, because the profile allows one retry.


def failing(annotations: Object | None = None, **spec: Any) -> Object:
    """Return a Job whose pods fail at no cost."""
    return job("train", {**exits(75), **(annotations or {})}, backoffLimit=1, podFailurePolicy=FREE, **spec)


def on_node(root: Object) -> Object:
    root["spec"]["template"]["spec"]["nodeName"] = "spot-0"
    return root


def forged(root: Object, **annotations: str) -> Object:
    keys = {names.PREFIX + key.replace("_", "-"): value for key, value in annotations.items()}
    root["spec"]["template"]["metadata"]["annotations"] |= keys
    return root


def suspend_and_resume(team: Namespace) -> None:
    for suspend in (True, False):
        assert team.patched("job/train", {"spec": {"suspend": suspend}}) == ""


def delete_the_account(team: Namespace) -> None:
    """Delete it as the admin of the cluster: nobody else may."""
    team.run("delete", accounts.ACCOUNT.resource, "--all")


def relabel(team: Namespace) -> None:
    assert team.patched("job/train", {"metadata": {"labels": {names.PROFILE: None}, "annotations": None}}) == ""


def nothing(_team: Namespace) -> None:
    pass


COUNTED: Final[dict[str, tuple[Object, Callable[[Namespace], None]]]] = {
    "its template names a node": (on_node(failing()), nothing),
    "its template names a node and says that the pods are counted": (
        forged(on_node(failing()), counted="true", after_failure='{"kills":{"main":9}}', attempt="0", max_retries="1"),
        nothing,
    ),
    "its template says in our name which attempts were made": (
        forged(failing(), attempt="0", attempt_source="JobStatus", max_retries="1", disruptions="0"),
        nothing,
    ),
    "its template has another profile's label": (failing(), nothing),
    "it is suspended and resumed after a failure": (failing(), suspend_and_resume),
    "its Account is deleted after a failure": (failing(), delete_the_account),
    "its label is taken off after a failure": (failing(), relabel),
}
COUNTED["its template has another profile's label"][0]["spec"]["template"]["metadata"]["labels"] = {
    names.PROFILE: "lax"
}


@pytest.mark.parametrize("way", COUNTED)
def test_failures_that_cost_nothing_end_a_job_although(way: str, namespace: NewNamespace) -> None:
    root, after_one = COUNTED[way]
    team = opted_in(namespace, "one-retry")
    team.create(root)
    if after_one is not nothing:
        team.wait_for("jobs", "train", lambda found: account(found).get("cost"))
        after_one(team)
    failed = team.wait_for("jobs", "train", lambda found: condition(found, "Failed"))
    assert condition(failed, "Failed")["reason"] == "FreeRestartLimitExceeded"
    assert account(failed)["cost"]["free"] >= 2  # another pod may end before the leader ends the Job


def test_pods_of_a_skipped_template_are_labelled_and_counted_and_lose_what_they_say_in_our_name(
    namespace: NewNamespace,
) -> None:
    team = opted_in(namespace)
    team.create(forged(job("train", SKIPPED, backoffLimit=3), counted="true", after_failure="{}"))
    (pod,) = team.running("train", 1)
    assert pod["metadata"]["labels"][names.PROFILE] == "default"
    assert pod["metadata"]["annotations"] == SKIPPED
    team.ends(pod, 75)
    team.wait_for("jobs", "train", lambda found: account(found).get("ended") == 1)


def test_thirty_failures_at_once_of_pods_that_name_their_node_are_all_counted(namespace: NewNamespace) -> None:
    """Thirty stand for three hundred: each pod is labelled and counted by itself."""
    team = opted_in(namespace)
    root = on_node(job("train", parallelism=30, completions=30, backoffLimit=3, podFailurePolicy=FREE))
    forged(root, counted="true")
    team.create(root)
    pods = team.running("train", 30)
    assert {pod["metadata"]["labels"][names.PROFILE] for pod in pods} == {"default"}
    assert not any(names.COUNTED in pod["metadata"].get("annotations", {}) for pod in pods)
    team.all_end(pods, 75)
    team.wait_for("jobs", "train", lambda found: account(found).get("cost") == {"free": 30})


def test_pods_that_a_user_takes_from_their_job_before_they_fail_are_counted_as_its_attempts(
    namespace: NewNamespace,
) -> None:
    team = opted_in(namespace)
    team.create(job("train", backoffLimit=3, podFailurePolicy=FREE))
    pod = None
    for _ in range(3):
        (pod,) = team.running("train", 1, but=pod)
        labels = dict.fromkeys(pod["metadata"]["labels"])
        assert team.patched(f"pod/{pod['metadata']['name']}", {"metadata": {"labels": labels}}) == ""
    team.wait_for("jobs", "train", lambda found: account(found).get("cost") == {"retry": 3})
