"""Sets restartPolicy ExitCode in a job of Kubeflow's training operator, so that a bug fails it at once.

Reads and writes:
    spec.*ReplicaSpecs.*.restartPolicy, spec.runPolicy.cleanPodPolicy
Reads:
    spec.*ReplicaSpecs.*.replicas, spec.runPolicy.ttlSecondsAfterFinished

With OnFailure a kubelet restarts a container in place whatever its exit code. With ExitCode the operator fails the job
after a code below 128, and creates the pod again after another one (pkg/controller.v1/common/pod.go of
training-operator 1.9.3). It does not count these pods, so a disruption costs nothing, and the ledger has to bound the
retries: without one nothing is set. Nothing is set either

- if the policy retries after a code below 128;
- if a crash may be the consequence of a disruption of another pod: the operator would not wait to see;
- if the job has a ttlSecondsAfterFinished: the operator sets no completionTime with ExitCode, and without one it cannot
  delete the job;
- in an object that runs already.

By default the operator leaves the pods of a failed job running. So where a replica type has ExitCode, they are cleaned
up, unless the author says what to do with them.
"""

from typing import TYPE_CHECKING, Final

from webhook.objects.patch import EVERY, Editor, Pattern, at, find
from webhook.objects.problem import Json, Path, Problem
from webhook.policy.settings import Settings
from webhook.rules.rule import Rule
from webhook.systems.kind_spec import KindSpec
from webhook.systems.kubeflow import spec as kubeflow

if TYPE_CHECKING:
    from webhook.rules.contexts import WorkloadContext

FIELD: Final = "restartPolicy"
ON_FAILURE: Final = "OnFailure"
TTL: Final = ("spec", "runPolicy", "ttlSecondsAfterFinished")
CLEAN_UP: Final = ("spec", "runPolicy", "cleanPodPolicy")
RUNNING: Final = "Running"  # those that run are deleted; others stay, with their logs


def _replicas_of(kind: KindSpec) -> Pattern:
    """Return the pattern of the replica types of a kind of the training operator; empty for another kind."""
    if kubeflow.TRAINING.get(kind.kind) is not kind:
        return ()
    return ("spec", kubeflow.REPLICA_SPECS[kind.kind], EVERY)


def writes(kind: KindSpec) -> tuple[Pattern, ...]:
    """Return what the rule writes in a kind: the restartPolicy of each replica type, and what cleans up pods."""
    replicas = _replicas_of(kind)
    return ((*replicas, FIELD), CLEAN_UP[:2]) if replicas else ()


def _edit(context: "WorkloadContext") -> list[Problem]:
    """Set ExitCode where the policy allows it, as it sets Never in a Job; return warnings.

    A leader must bound the retries of the object.
    """
    kind, root, old, settings, editor = context.kind, context.root, context.old, context.settings, context.editor
    replicas = list(find(root, _replicas_of(kind)))
    warnings = _edit_replicas(kind, old, settings, editor, replicas) if _fits(root, settings, replicas) else []
    exit_codes = any(replica.get(FIELD) == kubeflow.EXIT_CODE for _, replica in replicas)
    if exit_codes and at(root, CLEAN_UP) is None and (old is None or at(old, CLEAN_UP) == RUNNING):
        editor.set(CLEAN_UP, RUNNING)
    return warnings


def _edit_replicas(
    kind: KindSpec, old: Json | None, settings: Settings, editor: Editor, replicas: list[tuple[Path, Json]]
) -> list[Problem]:
    warnings = []
    for path, replica in replicas:
        field = (*path, FIELD)
        said = bool(replica.get(FIELD))
        if (replica.get(FIELD) or kubeflow.BY_DEFAULT.get(kind.kind)) != ON_FAILURE:
            continue
        if old is not None and at(old, field) != kubeflow.EXIT_CODE:
            continue
        if _is_kept(settings, said=said):
            what = ON_FAILURE if said else "left out, is OnFailure"
            warnings.append(Problem(field, f"{what}, which retries bugs in place", "use ExitCode to fail at once"))
            continue
        editor.set(field, kubeflow.EXIT_CODE)
        if not said:
            warnings.append(Problem(field, "left out, becomes ExitCode", "write it, or OnFailure to retry bugs too"))
    return warnings


def _is_kept(settings: Settings, *, said: bool) -> bool:
    """Return True if the profile leaves OnFailure as it is; `said`: whether the author wrote it."""
    policy = settings.profile.failure_policy
    if said and policy.inject == "IfAbsent":
        return True
    return (policy.on_failure_restart_policy if said else policy.absent_restart_policy) == "Keep"


def _fits(root: Json, settings: Settings, replicas: list[tuple[Path, Json]]) -> bool:
    policy = settings.profile.failure_policy
    pods = sum(1 if one.get("replicas") is None else one["replicas"] for _, one in replicas)
    return (
        all(code >= kubeflow.RESTARTED for code in policy.retriable_exit_codes)
        and (pods <= 1 or policy.coupled == "FailJob")
        and at(root, TTL) is None
    )


RULE: Final[Rule["WorkloadContext"]] = Rule(
    name="failure_policy",
    applies_to="a job of Kubeflow's training operator, where a leader bounds the retries",
    applies=lambda context: context.facts.bounds_retries(context.settings),
    edit=_edit,
    writes=writes,
)
