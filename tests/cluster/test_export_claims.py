"""Each claim of webhook/export/claims.py by an example: what the exported policies hold, and what they do not."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.awaiting import until
from tests.cluster import exported
from tests.cluster.conftest import new_namespace, with_operators
from tests.cluster.exported import annotations_of, create, is_refused, said
from tests.cluster.kubectl import KubectlError
from tests.cluster.manifests import job, job_set, pod, replicated_job
from tests.cluster.namespace import SERVER_SIDE
from tests.cluster.test_webhook_kinds import ADMITTED, name_of, samples_of, with_retries
from tests.objects import DISRUPTION, exit_codes
from webhook.export.claims import CLAIMS, Claim
from webhook.kinds import KINDS, Budget, batch
from webhook.kube import names
from webhook.objects import problem
from webhook.objects.patch import Editor, at
from webhook.rules.pods.protect import PROTECTION

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cluster.kubectl import Kubectl, Object
    from tests.cluster.namespace import Api, Namespace
    from webhook.kinds import KindSpec

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


OWN_RULES: Final = {"rules": [exit_codes("Count", "In", 3)]}
VOLCANO_JOB: Final = KINDS["batch.volcano.sh", "Job"]


@dataclass(frozen=True, kw_only=True)
class Example:
    """An object, and what the exported policies say about it or make of it.

    `refused`: a part of the refusal, empty if it is accepted. `stored`: the values at some paths of what is stored.
    """

    root: Callable[[], Object]
    profile: str = "default"
    refused: str = ""
    stored: dict[tuple[str | int, ...], Any] = field(default_factory=dict)


GKE_OFF_SPOT: Final = [
    {"matchExpressions": [{"key": "cloud.google.com/gke-spot", "operator": "NotIn", "values": ["true"]}]}
]
TERMS: Final = (
    *("spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"),
)
PREFERRED: Final = ("spec", "affinity", "nodeAffinity", "preferredDuringSchedulingIgnoredDuringExecution")


def of_job(root: Object) -> Object:
    """Return a pod as the Job controller creates it."""
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u", "controller": True}
    labels = {"batch.kubernetes.io/job-name": "train"}
    return {**root, "metadata": {**root["metadata"], "ownerReferences": [reference], "labels": labels}}


EXAMPLES: Final[dict[str, list[Example]]] = {
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
    "max-retries": [
        Example(
            root=lambda: annotated(job("x", backoffLimit=25), max_retries="5"), stored={("spec", "backoffLimit"): 5}
        ),
        Example(
            root=lambda: annotated(sample("tekton.dev", "TaskRun", "spec", "retries"), max_retries="2"),
            stored={("spec", "retries"): 2},
        ),
        Example(
            root=lambda: annotated(sample("kubeflow.org", "PaddleJob", "spec", "runPolicy"), max_retries="0"),
            stored={("spec", "runPolicy", "backoffLimit"): 0},
        ),
    ],
    "default": [
        Example(root=lambda: job("x"), stored={("spec", "backoffLimit"): 3}),
        Example(root=lambda: job("x"), profile="one-retry", stored={("spec", "backoffLimit"): 1}),
        Example(
            root=lambda: sample("kubeflow.org", "PyTorchJob", "spec", "runPolicy"),
            stored={("spec", "runPolicy", "backoffLimit"): 3},
        ),
        Example(
            root=lambda: sample("argoproj.io", "Workflow", "spec", "retryStrategy", value={"retryPolicy": "Always"}),
            stored={("spec", "retryStrategy", "limit"): 3},
        ),
    ],
    "clamp": [
        Example(root=lambda: job("x", backoffLimit=25), profile="clamp", stored={("spec", "backoffLimit"): 10}),
        Example(
            root=lambda: sample(
                "sparkoperator.k8s.io", "SparkApplication", "spec", "restartPolicy", "type", value="Always"
            ),
            profile="clamp",
            stored={("spec", "restartPolicy", "type"): "OnFailure", ("spec", "restartPolicy", "onFailureRetries"): 10},
        ),
    ],
    "clamp-others": [
        Example(root=lambda: indexed("x"), profile="clamp", refused="retries of all indexes together"),
        Example(
            root=lambda: with_containers(samples_of(VOLCANO_JOB)[0], "Always"),
            profile="clamp",
            refused="restarts the container in place",
        ),
    ],
    "skip": [
        Example(
            root=lambda: annotated(job("x", backoffLimit=4), skip="true"),
            stored={("spec", "podFailurePolicy"): None, ("metadata", "labels", names.PROFILE): None},
        ),
        Example(root=lambda: annotated(job("x", backoffLimit=25), skip="true"), refused=TOO_MANY),
    ],
    "failure-policy": [
        Example(
            root=lambda: job("x", backoffLimit=3),
            stored={
                ("spec", "podFailurePolicy", "rules"): [
                    DISRUPTION,
                    exit_codes("FailJob", "NotIn", 143, container="main"),
                ],
                ("spec", "podReplacementPolicy"): "Failed",
            },
        ),
        Example(root=lambda: job("x", backoffLimit=0), stored={("spec", "podFailurePolicy"): None}),
    ],
    "noted": [
        Example(root=lambda: job("x", backoffLimit=3), stored={("metadata", "labels", names.PROFILE): "default"}),
    ],
    "merge": [
        Example(
            root=lambda: job("x", backoffLimit=3, podFailurePolicy=OWN_RULES),
            stored={("spec", "podFailurePolicy", "rules"): OWN_RULES["rules"]},
        ),
    ],
    "sets": [
        Example(
            root=lambda: job_set("x", replicated_job("main", backoffLimit=3)),
            stored={("spec", "failurePolicy"): None},
        ),
    ],
    "free-restarts": [
        Example(root=lambda: job("x", podFailurePolicy={"rules": [exit_codes("Ignore", "NotIn", 0)]}, backoffLimit=3)),
    ],
    "interruptible": [
        Example(root=lambda: annotated(pod("x"), interruptible="false"), stored={TERMS: GKE_OFF_SPOT}),
    ],
    "always-on-spot": [
        Example(
            root=lambda: of_job(pod("x")),
            profile="always-on-spot",
            stored={
                (*PREFERRED, 0, "preference"): {
                    "matchExpressions": [{"key": "cloud.google.com/gke-spot", "operator": "In", "values": ["true"]}]
                }
            },
        ),
        Example(root=lambda: of_job(pod("x")), stored={("spec", "affinity"): None}),
    ],
    "provider": [
        Example(
            root=lambda: annotated(pod("x"), interruptible="false"),
            profile="suspend",
            stored={("spec", "affinity"): None},
        ),
    ],
    "attempts": [Example(root=lambda: of_job(pod("x")), stored={("metadata", "annotations"): None})],
    "protection": [
        Example(
            root=lambda: annotated(pod("x"), interruptible="false"),
            stored={("metadata", "annotations", key): None for key in PROTECTION},
        )
    ],
    "copies": [
        Example(
            root=lambda: annotated(job("x", backoffLimit=3), interruptible="false"),
            stored={("spec", "template", "metadata", "annotations", names.INTERRUPTIBLE): None},
        ),
    ],
    "back-off": [
        Example(
            root=lambda: job("x", completionMode="Indexed", completions=2, parallelism=2, backoffLimit=3),
            stored={("spec", "backoffLimitPerIndex"): None},
        ),
        Example(
            root=lambda: job("x", backoffLimit=3),
            profile="timeout",
            stored={("spec", "template", "spec", "activeDeadlineSeconds"): None},
        ),
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
# Claims that no creation of an object shows.
OTHERS: Final = {
    "modes": "test_in_mode_warn_nothing_is_changed_or_refused",
    "would-change": "test_in_mode_warn_nothing_is_changed_or_refused",
    "ledger": "tests of the ledger: it needs the server",
    "requested-retries": "tests of requested retries: they need the server",
    "replace": "test_an_unchanged_manifest_of_a_job_can_be_applied_again",
    "on-failure": "tests/unit/export/test_manifests.py: no profile of these tests has rules",
    "lint": "a policy in mode Enforce gives no warnings",
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


def test_every_claim_has_an_example() -> None:
    assert {claim.name for claim in CLAIMS} == EXAMPLES.keys() | OTHERS.keys()


@pytest.mark.parametrize("claim", [one for one in CLAIMS if one.name in EXAMPLES], ids=lambda claim: claim.name)
def test_the_policies_hold_what_is_claimed_and_nothing_else(team: Callable[..., Namespace], claim: Claim) -> None:
    for example in EXAMPLES[claim.name]:
        answer = create(team(example.profile), example.root())
        if example.refused:
            assert is_refused(answer), answer
            assert example.refused in said(answer)
        else:
            assert not is_refused(answer), answer
            assert {path: at(answer, path) for path in example.stored} == example.stored


@pytest.mark.parametrize("row", ADMITTED, ids=name_of)
def test_11_retries_are_refused_and_10_accepted_in_every_retry_field(
    team: Callable[..., Namespace], row: KindSpec
) -> None:
    for root in samples_of(row):
        if not row.namespaced:
            root["metadata"]["labels"] = {exported.PROFILE: "default"}
        of_jobs = [Budget((*one.path, batch.retry_field(one.spec)), None) for one in row.jobs(root)]
        for budget in [*of_jobs, *row.budgets(root)]:
            refused = create(team(), with_retries(root, budget, 11))
            assert is_refused(refused), budget
            assert f"{problem.field(budget.path)}: 11 retries exceed the limit of 10" in said(refused)
            assert not is_refused(create(team(), with_retries(root, budget, 10)))


@pytest.mark.parametrize("flags", [(), SERVER_SIDE], ids=["client-side", "server-side"])
def test_an_unchanged_manifest_of_a_job_can_be_applied_again(
    team: Callable[..., Namespace], flags: tuple[str, ...]
) -> None:
    manifest = job(f"again-{len(flags)}", backoffLimit=3, suspend=True)
    first = team().apply(manifest, *flags)
    assert first["spec"]["podFailurePolicy"]
    assert team().apply(manifest, *flags)["spec"] == first["spec"]


def test_in_mode_warn_nothing_is_changed_or_refused(team: Callable[..., Namespace]) -> None:
    warned = team("default", "Warn")
    refused = ("create", "--dry-run=server", "--output=json", "--filename=-")
    until(lambda: TOO_MANY in warned.run(*refused, stdin=job("x", backoffLimit=25)).stderr)
    for mode in ("Warn", "Audit", "Unknown"):
        stored = create(team("default", mode), job("x", backoffLimit=25))
        assert (stored["spec"]["backoffLimit"], stored["spec"].get("podFailurePolicy")) == (25, None)
        assert names.POLICY not in annotations_of(stored)


def test_an_update_is_refused_only_for_what_it_makes_worse(
    team: Callable[..., Namespace], api: Api, kubectl: Kubectl
) -> None:
    free = new_namespace("claims-update", {}, kubectl, api)
    cron = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "nightly"}}
    spec = {"schedule": "0 3 * * *", "suspend": True, "jobTemplate": {"spec": job("x", backoffLimit=20)["spec"]}}
    free.create({**cron, "spec": spec})
    free.run("label", "namespace", free.name, f"{exported.PROFILE}=default")

    def patched(retries: int) -> str:
        patch = f'{{"spec": {{"suspend": false, "jobTemplate": {{"spec": {{"backoffLimit": {retries}}}}}}}}}'
        return free.run("patch", "cronjob", "nightly", "--dry-run=server", f"--patch={patch}").stderr

    refusal = "spec.jobTemplate.spec.backoffLimit: 21 retries exceed the limit of 10"
    until(lambda: refusal in patched(21))
    assert patched(20) == patched(19) == ""
    assert free.run("delete", "cronjob", "nightly").returncode == 0
    assert team is not None


def test_the_largest_workflow_is_within_the_budget_of_the_api_server(team: Callable[..., Namespace]) -> None:
    def workflow(limit: int) -> Object:
        templates = [
            {"name": f"t{index}", "retryStrategy": {"limit": str(limit)}, "container": {"image": "x"}}
            for index in range(2400)
        ]
        root = sample("argoproj.io", "Workflow", "spec", "templates", value=templates)
        return annotated(root, max_retries="3") if limit == 25 else root

    assert not is_refused(create(team(), workflow(3)))
    edited = create(team(), workflow(25))
    assert not is_refused(edited), edited
    assert {one["retryStrategy"]["limit"] for one in edited["spec"]["templates"]} == {3}
    refused = create(team(), workflow(26))
    assert is_refused(refused)


def test_a_user_who_may_not_act_as_the_job_set_controller_makes_no_job_with_unlimited_retries(
    team: Callable[..., Namespace],
) -> None:
    made = job("x", backoffLimit=2147483647)
    owner = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "s", "uid": "u", "controller": True}
    made["metadata"]["ownerReferences"] = [owner]
    namespace = team()
    namespace.run("create", "role", "editor", "--verb=create,get", "--resource=jobs.batch")
    namespace.run("create", "rolebinding", "editor", "--role=editor", "--user=editor")
    create_as = ("create", "--dry-run=server", "--filename=-", "--as=editor")
    until(lambda: "forbidden: User" not in namespace.run(*create_as, stdin=job("y", backoffLimit=3)).stderr)
    assert "only the JobSet controller creates such Jobs" in namespace.run(*create_as, stdin=made).stderr
    try:
        namespace.create(made, "--dry-run=server")
    except KubectlError as error:
        pytest.fail(str(error))
