"""What the exported policies refuse, and what they do not judge, by examples."""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.awaiting import until
from tests.cluster import exported
from tests.cluster.conftest import new_namespace, with_operators
from tests.cluster.exported import create, is_refused, said
from tests.cluster.kubectl import KubectlError
from tests.cluster.manifests import job, pod
from tests.cluster.namespace import SERVER_SIDE
from tests.cluster.test_webhook_kinds import ADMITTED, name_of, samples_of, with_retries
from tests.objects import exit_codes
from webhook.kube import names
from webhook.objects import problem
from webhook.objects.patch import Editor
from webhook.systems.job import spec as batch
from webhook.systems.kind_spec import Budget
from webhook.systems.kinds import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.kubectl import Kubectl, Object
    from tests.cluster.namespace import Api, Namespace
    from webhook.systems.kind_spec import KindSpec

pytestmark = with_operators

TOO_MANY: Final = "25 retries exceed the limit of 10 in profile 'default'; set 10 or less"


def annotated(root: Object, **said_by_author: str) -> Object:
    """Return an object with annotations of ours in its metadata."""
    found = deepcopy(root)
    annotations = {names.PREFIX + key.replace("_", "-"): text for key, text in said_by_author.items()}
    Editor(found).update(("metadata", "annotations"), annotations)
    return found


def sample(group: str, kind: str, *path: str | int, value: Any = None) -> Object:
    """Return the first sample of a kind, with another value at a path; None removes what is there."""
    root = samples_of(KINDS[group, kind])[0]
    if value is None:
        Editor(root).remove(path)
    else:
        Editor(root).set(path, value)
    return root


def nested_pipeline(levels: int, retries: int) -> Object:
    """Return a Pipeline with pipelines in it, this many levels deep; the task at the lowest level has these retries."""
    task: Any = {"name": "last", "retries": retries, "taskRef": {"name": "x"}}
    for level in range(levels):
        task = {"name": f"level{level}", "pipelineSpec": {"tasks": [task]}}
    return {
        "apiVersion": "tekton.dev/v1",
        "kind": "Pipeline",
        "metadata": {"name": "nested"},
        "spec": {"tasks": [task]},
    }


def with_containers(root: Object, restart_policy: str) -> Object:
    found = deepcopy(root)
    found["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["restartPolicy"] = restart_policy
    return found


def with_restart_rule(operator: str, *values: int, **spec: Any) -> Object:
    found = job("x", **spec)
    rule = {"action": "Restart", "exitCodes": {"operator": operator, "values": list(values)}}
    own = {"restartPolicy": "Never", "restartPolicyRules": [rule]}
    found["spec"]["template"]["spec"]["containers"][0] |= own
    return found


def indexed(name: str, **spec: Any) -> Object:
    return job(name, completionMode="Indexed", completions=1000, parallelism=2, backoffLimitPerIndex=10, **spec)


VOLCANO_JOB: Final = KINDS["batch.volcano.sh", "Job"]


@dataclass(frozen=True, kw_only=True)
class Example:
    """An object, and a part of the refusal by the exported policies; empty if it is accepted."""

    root: Callable[[], Object]
    profile: str = "default"
    refused: str = ""


EXAMPLES: Final[dict[str, list[Example]]] = {
    "a left out field that allows any number": [
        Example(
            root=lambda: sample("kubeflow.org", "PyTorchJob", "spec", "runPolicy"),
            refused="spec.runPolicy.backoffLimit: unlimited retries exceed the limit of 10",
        ),
    ],
    "too many retries that the webhook would lower": [
        Example(root=lambda: job("x", backoffLimit=25), profile="clamp", refused="25 retries exceed the limit of 10"),
        Example(root=lambda: annotated(job("x", backoffLimit=25), max_retries="5"), refused=TOO_MANY),
        Example(root=lambda: annotated(job("x", backoffLimit=25), skip="true"), refused=TOO_MANY),
    ],
    "limit": [
        Example(root=lambda: job("x", backoffLimit=25), refused=f"spec.backoffLimit: {TOO_MANY}"),
        Example(
            root=lambda: sample("tekton.dev", "TaskRun", "spec", "retries", value=25),
            refused=f"spec.retries: {TOO_MANY}",
        ),
        Example(
            root=lambda: sample("batch.volcano.sh", "Job", "spec", "maxRetry", value=26),
            refused=(
                "spec.maxRetry: 25 retries exceed the limit of 10 in profile 'default'"
                " (the field counts runs: 1 means no retry); set 11 or less"
            ),
        ),
    ],
    "unlimited": [
        Example(
            root=lambda: sample(
                "sparkoperator.k8s.io", "SparkApplication", "spec", "restartPolicy", "type", value="Always"
            ),
            refused=(
                "spec.restartPolicy.type: allows unlimited retries; set OnFailure, and onFailureRetries 10 or less"
            ),
        ),
    ],
    "containers": [
        Example(
            root=lambda: with_containers(samples_of(VOLCANO_JOB)[0], "Always"),
            refused=(
                "spec.tasks[0].template.spec.containers[0]: restarts the container in place without limit; "
                "remove restartPolicy and restartPolicyRules, so that each failure counts against the retries"
            ),
        ),
        Example(
            root=lambda: with_restart_rule("In", 42, 143),
            refused=(
                "spec.template.spec.containers[0].restartPolicyRules[0]: restarts the container in place after exit "
                "code 42, which profile 'default' does not retry; list only 143 with the operator In"
            ),
        ),
        Example(
            root=lambda: with_restart_rule("NotIn", 42),
            refused="restarts the container in place after all exit codes but 42; list only 143 with the operator In",
        ),
        Example(
            root=lambda: with_restart_rule("In", 143, managedBy="example.test/another"),
            refused="spec.template.spec.containers[0]: restarts the container in place without limit",
        ),
        Example(root=lambda: with_restart_rule("In", 143)),
    ],
    "total": [
        Example(
            root=lambda: indexed("x"),
            refused=(
                "spec.backoffLimitPerIndex: allows 10000 retries of all indexes together, and profile 'default' "
                "allows 1000 (retries.total); set spec.backoffLimit, which bounds their sum, to 1000 or less"
            ),
        ),
        Example(root=lambda: indexed("x", backoffLimit=1000)),
    ],
    "nested": [
        Example(root=lambda: nested_pipeline(8, 25), refused=f"tasks[0].retries: {TOO_MANY}"),
        Example(root=lambda: nested_pipeline(9, 0), refused="is nested too deeply; move it up"),
        Example(root=lambda: nested_pipeline(8, 10)),
    ],
    "annotations": [
        Example(
            root=lambda: annotated(job("x"), max_retries="many"),
            refused=f"metadata.annotations[{names.MAX_RETRIES}]: is 'many'; must be a whole number from 0 to 10",
        ),
        Example(
            root=lambda: job("x", {names.INTERRUPTIBLE: "no"}),
            refused=(
                f'spec.template.metadata.annotations[{names.INTERRUPTIBLE}]: is \'no\'; must be "true" or "false"'
            ),
        ),
        Example(root=lambda: annotated(pod("x"), attempt="one"), refused="must be a whole number, 0 or more"),
    ],
    "free-restarts": [
        Example(root=lambda: job("x", podFailurePolicy={"rules": [exit_codes("Ignore", "NotIn", 0)]}, backoffLimit=3)),
    ],
    "types": [
        Example(
            root=lambda: sample(
                *("argoproj.io", "WorkflowTemplate", "spec", "templates", 0, "retryStrategy"), value={"limit": [1]}
            ),
            refused="no such overload",
        ),
        Example(
            root=lambda: sample(
                *("argoproj.io", "WorkflowTemplate", "spec", "templates", 0, "retryStrategy"), value={"limit": 9.5}
            ),
        ),
    ],
    "embedded": [
        Example(
            root=lambda: sample(
                "triggers.tekton.dev",
                "TriggerTemplate",
                *("spec", "resourcetemplates", 0, "spec", "pipelineSpec", "tasks", 0, "retries"),
                value=25,
            )
        ),
    ],
    "expressions": [
        Example(
            root=lambda: sample(
                "argoproj.io",
                "Workflow",
                *("spec", "templates", 1, "retryStrategy", "limit"),
                value="{{workflow.parameters.n}}",
            )
        ),
    ],
}


@pytest.fixture(scope="module")
def team(kubectl: Kubectl, api: Api) -> Callable[..., Namespace]:
    """Return a function for a namespace of a profile under the exported policies alone."""
    exported.install(kubectl)
    exported.namespace("claims-probe", kubectl, api, {exported.PROFILE: "default"})
    made: dict[tuple[str, str], Namespace] = {}

    def of(profile: str = "default", mode: str = "") -> Namespace:
        if (profile, mode) not in made:
            labels = {exported.PROFILE: profile, **({exported.MODE: mode} if mode else {})}
            made[profile, mode] = new_namespace(f"claims-{profile}", labels, kubectl, api)
        return made[profile, mode]

    return of


def refusal(team: Namespace, root: Object) -> Object:
    """Return the refusal of an object, once the API server has compiled the policy for its kind."""
    until(lambda: is_refused(create(team, root)))
    return create(team, root)


@pytest.mark.parametrize("examples", EXAMPLES.values(), ids=EXAMPLES)
def test_the_policies_refuse_too_many_retries_alone(team: Callable[..., Namespace], examples: list[Example]) -> None:
    for example in examples:
        if example.refused:
            assert example.refused in said(refusal(team(example.profile), example.root()))
        else:
            answer = create(team(example.profile), example.root())
            assert not is_refused(answer), answer


@pytest.mark.parametrize("kind", ADMITTED, ids=name_of)
def test_11_retries_are_refused_and_10_accepted_in_every_retry_field(
    team: Callable[..., Namespace], kind: KindSpec
) -> None:
    for root in samples_of(kind):
        if not kind.namespaced:
            root["metadata"]["labels"] = {exported.PROFILE: "default"}
        of_jobs = [Budget((*one.path, batch.retry_field(one.spec)), None) for one in kind.jobs(root)]
        others = [*kind.budgets(root)]
        for budget in [*of_jobs, *others]:
            refused = refusal(team(), with_retries(root, budget, 11))
            assert f"{problem.field(budget.path)}: 11 retries exceed the limit of 10" in said(refused)
            accepted = with_retries(root, budget, 10)
            for other in others:
                if other.retries is None and other.expression is None and other.path != budget.path:
                    accepted = with_retries(accepted, other, 10)  # left out, it may allow any number
            assert not is_refused(create(team(), accepted)), budget


@pytest.mark.parametrize("flags", [(), SERVER_SIDE], ids=["client-side", "server-side"])
def test_an_unchanged_manifest_of_a_job_can_be_applied_again(
    team: Callable[..., Namespace], flags: tuple[str, ...]
) -> None:
    manifest = job(f"again-{len(flags)}", backoffLimit=3, suspend=True)
    first = team().apply(manifest, *flags)
    assert team().apply(manifest, *flags)["spec"] == first["spec"]


def test_in_the_other_modes_nothing_is_refused(team: Callable[..., Namespace]) -> None:
    warned = team("default", "Warn")
    refused = ("create", "--dry-run=server", "--output=json", "--filename=-")
    until(lambda: TOO_MANY in warned.run(*refused, stdin=job("x", backoffLimit=25)).stderr)
    for mode in ("Warn", "Audit", "Unknown"):
        assert not is_refused(create(team("default", mode), job("x", backoffLimit=25)))


def test_an_update_is_refused_only_for_what_it_makes_worse(
    team: Callable[..., Namespace], api: Api, kubectl: Kubectl
) -> None:
    free = new_namespace("claims-update", {}, kubectl, api)
    cron = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "nightly"}}
    spec = {"schedule": "0 3 * * *", "suspend": True, "jobTemplate": {"spec": job("x", backoffLimit=20)["spec"]}}
    free.create({**cron, "spec": spec})
    free.label({exported.PROFILE: "default"})

    def changed_to(retries: int) -> Object:
        return {"spec": {"suspend": False, "jobTemplate": {"spec": {"backoffLimit": retries}}}}

    refusal = "spec.jobTemplate.spec.backoffLimit: 21 retries exceed the limit of 10"
    until(lambda: refusal in free.patched("cronjob/nightly", changed_to(21), dryRun="All"))
    for retries in (20, 19):
        patch = json.dumps(changed_to(retries))
        printed = free.run("patch", "cronjob", "nightly", "--dry-run=server", f"--patch={patch}")
        assert (printed.returncode, printed.stderr) == (0, "")
    free.delete("cronjob/nightly")
    assert team is not None


def test_the_largest_workflow_is_within_the_budget_of_the_api_server(team: Callable[..., Namespace]) -> None:
    def workflow(limit: int) -> Object:
        templates = [
            {"name": f"t{index}", "retryStrategy": {"limit": str(limit)}, "container": {"image": "x"}}
            for index in range(2400)
        ]
        return sample("argoproj.io", "Workflow", "spec", "templates", value=templates)

    assert not is_refused(create(team(), workflow(3)))
    assert is_refused(create(team(), workflow(26)))


def test_a_user_who_may_not_act_as_the_job_set_controller_makes_no_job_with_unlimited_retries(
    team: Callable[..., Namespace],
) -> None:
    made = job("x", backoffLimit=2147483647)
    owner = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "s", "uid": "u", "controller": True}
    made["metadata"]["ownerReferences"] = [owner]
    namespace = team()
    namespace.permit("editor", {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create", "get"]})
    namespace.bind("Role/editor", "User", "editor")
    create_as_editor = partial(namespace.api.send, "POST", namespace.path_to("jobs"), user="editor", dryRun="All")
    until(lambda: "forbidden: User" not in str(create_as_editor(job("y", backoffLimit=3)).get("message")))
    assert "only the JobSet controller creates such Jobs" in create_as_editor(made)["message"]
    try:
        namespace.create(made, "--dry-run=server")
    except KubectlError as error:
        pytest.fail(str(error))
