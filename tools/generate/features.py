"""The table of features in docs/reference/workloads.md: for each kind Y, from the code, or the reason why not.

REASONS has a reason exactly where the code lacks a feature: tests/unit/test_features.py.
"""

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from tests.admission import mutate
from tests.bench.curve.figures import markdown
from tests.documents import documents_of
from webhook.accounts.account import Account
from webhook.accounts.counted import counted_of
from webhook.explain.roots import MADE, MAKERS
from webhook.objects.problem import Json
from webhook.pods.outcomes import DEADLINE
from webhook.pods.pods import Condition, Exit, Pod
from webhook.policy.model import Profile
from webhook.policy.settings import NamedProfile
from webhook.rules import registry
from webhook.systems import app_wrapper, core
from webhook.systems.accounts import SYSTEMS
from webhook.systems.argo import spec as argo
from webhook.systems.core import DISRUPTED, KILLED
from webhook.systems.flyte import spec as flyte
from webhook.systems.job import spec as batch
from webhook.systems.job.spec import CRON_JOB
from webhook.systems.job_set.spec import JOB_SET
from webhook.systems.kind_spec import KindSpec
from webhook.systems.kinds import KINDS
from webhook.systems.kubeflow import spec as kubeflow
from webhook.systems.ray.spec import RAY_JOB
from webhook.systems.reruns import ADAPTERS
from webhook.systems.system import System
from webhook.systems.tekton import spec as tekton
from webhook.systems.volcano.spec import JOB as VOLCANO_JOB

YES: Final = "Y"
SAMPLES: Final = Path(__file__).parents[2] / "manifests" / "samples"
DISRUPTIONS: Final = ("EvictionByEvictionAPI", "PreemptionByScheduler", "DeletionByTaintManager")
SCOPES: Final = ("", "head", "driver", "worker/0")  # the parts that a kind may treat apart
CONTAINERS: Final = ("main", "worker")  # of the samples
BEFORE, AFTER = "2026-11-23T12:00:00Z", "2026-11-23T12:00:01Z"
INJECTING: Final = "failure_policy"  # the rules that inject what ends a workload for a bug
DEFAULT: Final = NamedProfile("default", Profile()).settings({})
NO_RERUN: Final = "its operator never starts a finished one again"
BOUNDED: Final = "its own controller bounds the retries"
TRAINING: Final = {
    "Requested retry": NO_RERUN,
}
# Kinds of which a disruption costs a retry of another object.
COSTS_ANOTHER: Final = frozenset({kubeflow.MPI_JOB})
CANNOT_FAIL: Final = "its rules count, but nothing outside can make it fail"
MPI: Final = {
    "Hangs": "a worker that ends fails it; its launcher, a Job, is ended",
    "Renewed retries": BOUNDED,
    "Fail fast": "its launcher ends with 1 when a worker is lost, so its exit codes say nothing",
    "Disruption free": "a lost worker is created again, but costs its launcher, a Job, a retry",
    "`onFailure`": "its rules count; only its launcher, a Job, can be made to fail",
    "Requested retry": NO_RERUN,
}
SPARK: Final = {
    "Renewed retries": BOUNDED,
    "`onFailure`": CANNOT_FAIL,
    "Fail fast": "it has no field for exit codes, and nothing outside can make it fail",
    "Disruption free": "every end of a driver counts; executors are replaced at no cost",
    "Requested retry": "a change of its spec runs all of it again; its operator has no other way",
}
FLYTE: Final = {
    "Renewed retries": BOUNDED,
    "Fail fast": "the program decides: Flyte retries a `FlyteRecoverableException` alone",
    "`onFailure`": "its rules count, but only Flyte can make it fail",
    "Requested retry": "Flyte recovers an execution itself",
}
OF_TEKTON: Final = "Tekton retries whatever ended a pod: a disruption costs a retry"
# By kind and column, why the code lacks a feature. A test names the entries that no longer apply.
REASONS: Final[dict[KindSpec, dict[str, str]]] = {
    JOB_SET: {
        "Renewed retries": "its `maxRestarts` is immutable",
    },
    argo.WORKFLOW: {
        "Renewed retries": BOUNDED,
    },
    tekton.PIPELINE_RUN: {
        "Renewed retries": BOUNDED,
        "Disruption free": OF_TEKTON,
    },
    tekton.TASK_RUN: {
        "Renewed retries": BOUNDED,
        "Disruption free": OF_TEKTON,
        "Requested retry": "a TaskRun without a PipelineRun is created again in seconds; `retry` the PipelineRun",
    },
    **dict.fromkeys(kubeflow.KINDS, TRAINING),
    kubeflow.MPI_JOB: MPI,
    RAY_JOB: {
        "Hangs": "the end of a pod of its RayCluster costs no retry, so nothing would bound such ends",
        "Renewed retries": BOUNDED,
        "`onFailure`": CANNOT_FAIL,
        "Fail fast": "the exit code of its job is on no pod, and nothing outside can make it fail",
    },
    **{KINDS[group, "SparkApplication"]: SPARK for group in ("sparkoperator.k8s.io", "spark.apache.org")},
    VOLCANO_JOB: {
        "Renewed retries": BOUNDED,
        "Disruption free": "each restart counts for `maxRetry`",
    },
    flyte.FLYTE_WORKFLOW: FLYTE,
    flyte.TASK_ACTION: {
        **FLYTE,
        "Limit": "it stores its retries in bytes that cannot be read",
        "Disruption free": "Flyte decides: it has a budget of its own for what the system ended",
        "Ledger": "Flyte keeps its attempts itself; they are in history",
        "`onFailure`": "it has no account",
        "Hangs": "it has no account",
    },
    app_wrapper.APP_WRAPPER: {
        "Fail fast": "what is in it fails fast; a reset follows",
        "Disruption free": "what is in it does not spend retries; a reset costs one, whatever caused it",
        "Ledger": "the workload in it has the account",
        "`onFailure`": "for the workload in it",
        "Hangs": "for the workload in it",
        "Renewed retries": "for the workload in it",
        "Requested retry": "for the workload in it, as long as it runs",
    },
}


def holds_limit(kind: KindSpec) -> bool:
    """Return True if the retry limit applies to a field of a kind."""
    return bool(kind.retry_fields or kind.job_specs)


def fails_fast(kind: KindSpec) -> bool:
    """Return True if rules inject what ends a workload for a bug, or the leader ends it."""
    injecting = (rule for rules in (registry.JOB_RULES, registry.WORKLOAD_RULES) for rule in rules)
    system = SYSTEMS.get(kind)
    by_leader = system is not None and system.ends_bugs
    return by_leader or any(rule.name == INJECTING and rule.writes(kind) for rule in injecting)


def is_free_of_disruptions(kind: KindSpec) -> bool:
    """Return True if no disruption of any part of the sample of a kind, as it is admitted, costs a retry."""
    system = SYSTEMS.get(kind)
    if system is None or kind in COSTS_ANOTHER:
        return False
    if system.has_jobs:
        return True
    root = admitted(kind)
    costs = (cost_of(system, root, reason, scope) for reason in DISRUPTIONS for scope in SCOPES)
    return all(cost in {"disruption", "free", "none"} for cost in costs)


def cost_of(system: System, root: Json, reason: str, scope: str) -> str:
    """Return what a disruption costs that is the first end of a scope with three retries."""
    pod = pod_of(
        system.kind,
        scope=scope,
        max_retries=3,
        attempt=0,
        phase="Failed",
        deleting=True,
        deleted=BEFORE,
        ended=AFTER,
        conditions=(Condition(DISRUPTED, "True", reason, BEFORE),),
    )
    return counted_of(system, root, None, DEFAULT).outcome_of(Account(), pod).cost


def has_account(kind: KindSpec) -> bool:
    """Return True if the ledger keeps an account of a kind."""
    return kind in SYSTEMS


def obeys_rules(kind: KindSpec) -> bool:
    """Return True if the rules of onFailure decide about a kind: the ledger counts its pods, and can end it."""
    system, ended = SYSTEMS.get(kind), pod_of(kind, controller="train")
    if system is None or system.has_jobs:
        return system is not None
    return system.fail(admitted(kind), ended, "reason", "message") is not None


def pod_of(kind: KindSpec, **fields: Any) -> Pod:
    """Return a pod of the sample of a kind."""
    return Pod(
        namespace="ml",
        name="train-0",
        uid="pod-uid",
        job="train",
        job_uid="uid",
        group=kind.group,
        kind_name=kind.kind,
        **fields,
    )


@cache
def admitted(kind: KindSpec) -> Json:
    """Return the sample of a kind as the API has it once it is admitted."""
    documents = (one for file in (SAMPLES / "kinds").glob("*.yaml") for one in documents_of(file.read_text()))
    sample = next(
        one for one in documents if (one["apiVersion"].partition("/")[0], one["kind"]) == (kind.group, kind.kind)
    )
    found: Json = mutate(sample).object
    return {**found, "metadata": {**found["metadata"], "namespace": "ml", "uid": "uid", "resourceVersion": "1"}}


def can_run_again(kind: KindSpec) -> bool:
    """Return True if a person may request a retry of a kind."""
    return kind in ADAPTERS


def ends_hangs(kind: KindSpec) -> bool:
    """Return True if the end of a pod whose program hangs costs a retry, in one scope of the sample of a kind."""
    system = SYSTEMS.get(kind)
    if system is None or system.has_jobs:
        return system is not None
    counted, hung = counted_of(system, admitted(kind), None, DEFAULT), pod_of(kind, phase="Failed", reason=DEADLINE)
    killed = tuple(Exit(container, KILLED, "Error", AFTER) for container in CONTAINERS)
    return any(counted.counts_as_retry(replace(hung, scope=scope, exits=killed)) for scope in SCOPES)


def renews_retries(kind: KindSpec) -> bool:
    """Return True if retries of a kind may count no more after a time, or once its program gets further."""
    system = SYSTEMS.get(kind)
    return system is not None and (kind is batch.JOB or not (system.has_jobs or system.bounded))


# What each column asks of the code.
COLUMNS: Final[dict[str, Callable[[KindSpec], bool]]] = {
    "Limit": holds_limit,
    "Fail fast": fails_fast,
    "Disruption free": is_free_of_disruptions,
    "Ledger": has_account,
    "`onFailure`": obeys_rules,
    "Requested retry": can_run_again,
    "Hangs": ends_hangs,
    "Renewed retries": renews_retries,
}


def listed_kinds() -> Iterator[KindSpec]:
    """Yield the kinds that run: no templates, schedules, or parts of another workload."""
    left_out = {core.POD, CRON_JOB, *MADE, *MAKERS}
    return (kind for kind in KINDS.values() if kind not in left_out)


def parts() -> str:
    """Return the table of docs/how-to/explain.md: what the parts of a workload are, and what ends with one of them."""
    ends: dict[tuple[str, str], list[str]] = {}
    for kind, system in SYSTEMS.items():
        if not system.has_jobs:
            whole = f"the {system.unit}" if system.scopes_end_alone else "the workload"
            what = whole if obeys_rules(kind) else "nothing: nobody outside can end it"
            ends.setdefault((system.unit, what), []).append(kind.kind_name)
    cells = [(", ".join(dict.fromkeys(kinds)), unit, what) for (unit, what), kinds in ends.items()]
    return markdown(("Kind", "Part", "What a limit, or a fatal end, ends"), cells)


def lacking() -> Iterator[str]:
    """Yield what to add to REASONS: a feature that a kind lacks without a reason."""
    for kind in listed_kinds():
        if kind not in REASONS and kind not in SYSTEMS:
            yield f"webhook/explain/roots.py: MADE has no {kind}: if it is a template or a schedule, say of what"
        for column in COLUMNS:
            if not COLUMNS[column](kind) and column not in REASONS.get(kind, {}):
                yield f"tools/generate/features.py: REASONS[{kind}] has no {column!r}: say why a {kind.kind} lacks it"


def table() -> str:
    """Return the table."""
    lines = [("Kind", *COLUMNS), ("---",) * (len(COLUMNS) + 1)]
    lines += [(f"{kind.kind}<br>{kind.group}", *(cell(kind, column) for column in COLUMNS)) for kind in listed_kinds()]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def cell(kind: KindSpec, column: str) -> str:
    """Return Y if the code has a feature, else the reason why not."""
    return YES if COLUMNS[column](kind) else REASONS[kind][column]


def made() -> str:
    """Return which kinds are not in the table, and what has their features."""
    by_maker: dict[KindSpec, list[str]] = {batch.JOB: [CRON_JOB.kind]}
    for kind, related in (*MADE.items(), *MAKERS.items()):
        by_maker.setdefault(related, []).append(kind.kind)
    parts = [f"{listed(kinds)}: `{related.kind}`" for related, kinds in by_maker.items()]
    return f"Kinds that are not in the table have the features of what belongs to them: {'; '.join(parts)}.\n"


def listed(kinds: list[str]) -> str:
    """Return names of kinds as code, each once."""
    return ", ".join(f"`{kind}`" for kind in dict.fromkeys(kinds))
