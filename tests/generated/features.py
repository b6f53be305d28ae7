"""The table of features in docs/reference/workloads.md: for each kind Y, from the code, or the reason why not.

REASONS has a reason exactly where the code lacks a feature: tests/unit/test_features.py.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import yaml

from tests.admission import mutate
from webhook.explain.roots import MADE, MAKERS
from webhook.kinds import KINDS, KindSpec, app_wrapper, batch, core, flyte, kubeflow, tekton
from webhook.kinds import job_set as job_sets
from webhook.kinds.argo import WORKFLOW
from webhook.kinds.ray import RAY_JOB
from webhook.kinds.volcano import JOB as VOLCANO_JOB
from webhook.ledger.model.pods import DISRUPTED, Condition, Pod
from webhook.ledger.model.systems import SYSTEMS
from webhook.ledger.model.systems.system import Spent, System
from webhook.objects.problem import Json
from webhook.policy.model import Profile
from webhook.policy.settings import NamedProfile
from webhook.retry.kinds.registry import ADAPTERS
from webhook.rules import registry

YES: Final = "Y"
SAMPLES: Final = Path(__file__).parents[2] / "manifests" / "samples"
TRACKED: Final = (batch.JOB, job_sets.JOB_SET)  # kinds with an account that are no System
DISRUPTIONS: Final = ("EvictionByEvictionAPI", "PreemptionByScheduler", "DeletionByTaintManager")
INJECTING: Final = "failure_policy"  # the rules that inject what ends a workload for a bug
LEDGER_LACKS: Final = "the ledger does not count its pods yet"
NO_RERUN: Final = "no rerun of it is offered"
NOT_COUNTED: Final = {"Ledger": LEDGER_LACKS, "`onFailure`": LEDGER_LACKS}
NO_EXIT_CODE: Final = "it has no field for exit codes"
KUBEFLOW: Final = {
    **NOT_COUNTED,
    "Fail fast": "`ExitCode` restarts codes of 128 and above, whatever the policy says",
    "Disruption free": "a pod that is evicted is created again at no cost, but nobody counts how often",
    "Requested retry": NO_RERUN,
}
SPARK: Final = {
    **NOT_COUNTED,
    "Fail fast": NO_EXIT_CODE,
    "Disruption free": "each run that ends counts, whatever ended it; the driver replaces executors at no cost",
    "Requested retry": NO_RERUN,
}
FLYTE: Final = {
    "Fail fast": "the program decides: Flyte retries a `FlyteRecoverableException` alone",
    "Disruption free": "Flyte decides: it has a budget of its own for what the system ended",
    "Ledger": "Flyte keeps its attempts itself",
    "`onFailure`": "Flyte keeps its attempts itself",
    "Requested retry": "Flyte recovers an execution itself",
}
OF_TEKTON: Final = "a pod that is deleted costs nothing; one that its kubelet evicts costs a retry"
# By kind and column, why the code lacks a feature. A test names the entries that no longer apply.
REASONS: Final[dict[KindSpec, dict[str, str]]] = {
    tekton.PIPELINE_RUN: {
        "Disruption free": OF_TEKTON,
    },
    tekton.TASK_RUN: {
        "Disruption free": OF_TEKTON,
        "Requested retry": "a TaskRun without a PipelineRun is created again in seconds; `retry` the PipelineRun",
    },
    WORKFLOW: {
        "Fail fast": "its `expression` is not set yet",
        "Requested retry": NO_RERUN,
    },
    **dict.fromkeys(kubeflow.ROWS, KUBEFLOW),
    RAY_JOB: {
        **NOT_COUNTED,
        "Fail fast": NO_EXIT_CODE,
        "Disruption free": "each retry is a new RayCluster, whatever ended the one before",
        "Requested retry": NO_RERUN,
    },
    **{KINDS[group, "SparkApplication"]: SPARK for group in ("sparkoperator.k8s.io", "spark.apache.org")},
    VOLCANO_JOB: {
        **NOT_COUNTED,
        "Fail fast": "its `policies` are not set yet",
        "Disruption free": "each restart counts for `maxRetry`",
        "Requested retry": NO_RERUN,
    },
    flyte.FLYTE_WORKFLOW: FLYTE,
    flyte.TASK_ACTION: {**FLYTE, "Limit": "it stores its retries in bytes that cannot be read"},
    app_wrapper.APP_WRAPPER: {
        "Fail fast": "what is in it fails fast; a reset follows",
        "Disruption free": "what is in it does not spend retries; a reset costs one, whatever caused it",
        "Ledger": "the workload in it has the account",
        "`onFailure`": "for the workload in it",
        "Requested retry": "for the workload in it, as long as it runs",
    },
}


def holds_limit(row: KindSpec) -> bool:
    """Return True if the retry limit applies to a field of a kind."""
    return bool(row.retry_fields or row.job_specs)


def fails_fast(row: KindSpec) -> bool:
    """Return True if rules inject what ends a workload for a bug, or the leader ends it."""
    injecting = (rule for rules in (registry.JOB_RULES, registry.WORKLOAD_RULES) for rule in rules)
    system = system_of(row)
    by_leader = system is not None and system.ends_bugs
    return by_leader or any(rule.name == INJECTING and rule.writes(row) for rule in injecting)


def is_free_of_disruptions(row: KindSpec) -> bool:
    """Return True if no way of disrupting a pod costs a retry."""
    system = system_of(row)
    return row in TRACKED if system is None else all(costs_no_retry(system, reason) for reason in DISRUPTIONS)


def costs_no_retry(system: System, reason: str) -> bool:
    """Return True if a disruption costs no retry of the sample of a kind, as it is admitted."""
    pod = Pod(
        namespace="ml",
        name="train-0",
        uid="pod-uid",
        job="",
        job_uid="",
        phase="Failed",
        deleting=True,
        conditions=(Condition(DISRUPTED, "True", reason, ""),),
    )
    settings = NamedProfile("default", Profile()).settings({})
    cost = system.cost_of(pod, admitted(system.row)["metadata"], Spent(0, 0, 3), settings)
    return cost in {"disruption", "free", "none"}


def has_account(row: KindSpec) -> bool:
    """Return True if the ledger keeps an account of a kind."""
    return row in TRACKED or system_of(row) is not None


def obeys_rules(row: KindSpec) -> bool:
    """Return True if the rules of onFailure decide about a kind: the ledger counts its pods, and may end it."""
    system = system_of(row)
    return row in TRACKED or (system is not None and system.fail is not None)


def system_of(row: KindSpec) -> System | None:
    """Return what the ledger knows of a kind; None if it keeps no account of it, or a special one."""
    return SYSTEMS.get(row)


def admitted(row: KindSpec) -> Json:
    """Return the sample of a kind as it is admitted."""
    documents = (one for file in (SAMPLES / "kinds").glob("*.yaml") for one in yaml.safe_load_all(file.read_text()))
    sample = next(
        one for one in documents if (one["apiVersion"].partition("/")[0], one["kind"]) == (row.group, row.kind)
    )
    found: Json = mutate(sample).object
    return found


def can_run_again(row: KindSpec) -> bool:
    """Return True if a person may request a retry of a kind."""
    return row in ADAPTERS


# What each column asks of the code.
COLUMNS: Final[dict[str, Callable[[KindSpec], bool]]] = {
    "Limit": holds_limit,
    "Fail fast": fails_fast,
    "Disruption free": is_free_of_disruptions,
    "Ledger": has_account,
    "`onFailure`": obeys_rules,
    "Requested retry": can_run_again,
}


def rows() -> Iterator[KindSpec]:
    """Yield the kinds that run: no templates, schedules, or parts of another workload."""
    left_out = {core.POD, batch.CRON_JOB, *MADE, *MAKERS}
    return (row for row in KINDS.values() if row not in left_out)


def table() -> str:
    """Return the table."""
    lines = [("Kind", *COLUMNS), ("---",) * (len(COLUMNS) + 1)]
    lines += [(f"{row.kind}<br>{row.group}", *(cell(row, column) for column in COLUMNS)) for row in rows()]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def cell(row: KindSpec, column: str) -> str:
    """Return Y if the code has a feature, else the reason why not."""
    return YES if COLUMNS[column](row) else REASONS[row][column]


def made() -> str:
    """Return which kinds are not in the table, and what has their features."""
    by_maker: dict[KindSpec, list[str]] = {batch.JOB: [batch.CRON_JOB.kind]}
    for row, related in (*MADE.items(), *MAKERS.items()):
        by_maker.setdefault(related, []).append(row.kind)
    parts = [f"{listed(kinds)}: `{related.kind}`" for related, kinds in by_maker.items()]
    return f"Kinds that are not in the table have the features of what belongs to them: {'; '.join(parts)}.\n"


def listed(kinds: list[str]) -> str:
    """Return names of kinds as code, each once."""
    return ", ".join(f"`{kind}`" for kind in dict.fromkeys(kinds))
