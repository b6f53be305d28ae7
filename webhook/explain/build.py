"""Explains what each attempt of a workload cost and why, by its account and its pods. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from webhook.accounts import limits, words
from webhook.accounts.account import Account
from webhook.accounts.counted import counted_of
from webhook.accounts.forecast import Standing
from webhook.capacity.recognition import NodeFacts, capacities
from webhook.explain import budgets, pending, pipeline_run
from webhook.explain.next_failure import NextFailure, next_of
from webhook.explain.pending import Delayed, PendingVerdict
from webhook.explain.rows import PLACEMENTS, Row, ended_row, newest, others_of, running_row
from webhook.explain.standings import EVENT, NOBODYS, account_with, of_job, pods_in, standings_of
from webhook.kube import terminal
from webhook.objects.left_out import RAISING, LeftOut
from webhook.objects.patch import at
from webhook.objects.problem import Json, Path
from webhook.pods.pods import Pod
from webhook.retry import record
from webhook.systems.accounts import SYSTEMS
from webhook.systems.flyte.spec import FLYTE_WORKFLOW
from webhook.systems.job import spec as batch
from webhook.systems.job_set.spec import JOB_SET
from webhook.systems.kind_spec import KindSpec, controller_of
from webhook.systems.pods import place_of
from webhook.systems.tekton import spec as tekton
from webhook.systems.tekton.rerun import words_of

UNPLACED: Final = "nothing is placed: no provider is recognised, or the profile or the pod leaves its nodes open"
REPORTED: Final = (
    "the leader ends and suspends nothing: actions of the profile is Report; an Event says what it would do"
)
NOT_RECOGNISED: Final = "nothing is placed: no provider is recognised from the nodes; see `retry-policy doctor`"
SUCCEEDED: Final = "Succeeded"  # the condition with which Tekton and Knative say how a run ends
ENDS: Final = {"True": "Succeeded", "False": "Failed"}
# Where kinds say how far a workload is, and why: the first that has a text says it.
STATES: Final[tuple[tuple[Path, Path], ...]] = (
    (("status", "phase"), ("status", "message")),
    (("status", "jobDeploymentStatus"), ("status", "message")),
    (("status", "applicationState", "state"), ("status", "applicationState", "errorMessage")),
    (("status", "currentState", "currentStateSummary"), ("status", "currentState", "message")),
    (("status", "state", "phase"), ("status", "state", "message")),
)
# By status.phase, which is a number (flytepropeller/pkg/apis/flyteworkflow/v1alpha1/iface.go).
FLYTE_PHASES: Final = {2: "Succeeding", 3: "Succeeded", 4: "Failing", 5: "Failed", 6: "Aborted"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """A workload: its state, its budgets, its attempts, oldest first, and what its next failure does."""

    kind: str
    namespace: str
    name: str
    state: str
    summary: str
    budgets: list[str]
    earlier: int  # attempts that are counted but not in `rows`
    others: dict[str, int] = field(default_factory=dict)  # pods that have not failed and are not in `rows`, by state
    requested: tuple[record.Requested, ...] = ()  # requested retries
    rows: list[Row] = field(default_factory=list)
    waits_until: str = ""  # the end of the Job controller's back-off, RFC 3339; empty if it does not wait
    delays: list[Delayed] = field(default_factory=list)  # pods that a rule of onFailure holds back
    verdicts: list[PendingVerdict] = field(default_factory=list)  # pending ones
    placement: str = ""  # why the webhook chooses no nodes; empty if it does
    actions: str = ""  # why the leader ends nothing; empty if it may
    next: list[str] = field(default_factory=list)  # the texts of `forecasts`
    forecasts: list[NextFailure] = field(default_factory=list)


def explain(  # noqa: PLR0913 - two of them have a default
    kind: KindSpec,
    root: Json,
    children: list[Json],
    parts: Iterable[Json],
    left_out: LeftOut = RAISING,
    *,
    now: float = 0.0,
) -> Explanation:
    """Explain a workload of a kind, as the API has it; raise UnfitError if its account is malformed.

    `children`: a Job itself, the Jobs of a JobSet, or the TaskRuns and CustomRuns of a PipelineRun. `parts`: the pods
    that are counted for it, Events about them, and its Account. `now`: Unix time, up to which disruptions count.
    """
    metadata, parts = root["metadata"], list(parts)
    all_pods, found = pods_in(parts, left_out)
    account = account_with(kind, root, children, parts, found, left_out, now)
    standings = standings_of(kind, root, children, account, found, now)
    placed = _is_placed(account, found)
    foretold = [*next_of(standings, found, placed=placed)]
    uncounted = [pod for pod in found if not pod.enters_account]
    shown = newest(uncounted)
    rows = [*(ended_row(kind, detail) for detail in account.last), *_running_rows(shown, account, kind, root)]
    summary, others = words.summary(account), others_of(root, uncounted, shown)
    earlier = account.ended + sum(account.in_place.values()) - len(account.last)
    if kind is tekton.PIPELINE_RUN:  # the TaskRuns have all attempts
        rows, children = pipeline_run.rows_of(children, account, found, left_out)
        summary, others, earlier = pipeline_run.summary(children, account), {}, 0
    of_jobs = [standing for standing in standings if standing.system.has_jobs]
    refused = _refusal_of(of_jobs, found, [part for part in parts if part.get("kind") == EVENT])
    return Explanation(
        kind=kind.kind,
        namespace=metadata.get("namespace") or "",
        name=metadata["name"],
        state=refused or state_of(kind, root),
        summary=summary,
        budgets=[*budgets.budgets_of(kind, root, children, account, found), *budgets.deadlines(standings)],
        earlier=earlier,
        others=others,
        requested=record.read(root),
        rows=rows,
        waits_until="" if refused else _waiting(root, of_jobs, found, all_pods),
        delays=pending.delays(found),
        verdicts=[verdict for standing in of_jobs if standing.acts for verdict in pending.verdicts(standing, found)],
        placement=UNPLACED if of_jobs and foretold and not placed else "",
        actions="" if all(standing.acts for standing in standings) else REPORTED,
        next=[one.text for one in foretold],
        forecasts=foretold,
    )


def _running_rows(shown: list[Pod], account: Account, kind: KindSpec, root: Json) -> Iterable[Row]:
    system = SYSTEMS[kind]
    counted = counted_of(system, root, root if kind is JOB_SET else None, NOBODYS.settings({}))
    by_start = sorted(shown, key=lambda pod: pod.started)
    return [running_row(pod, counted.attempt_of(account, pod), limits.scope_of(pod)) for pod in by_start]


def is_counted_for(pod: Json, kind: KindSpec, root: Json) -> bool:
    """Return True if a pod is counted for a workload of another kind than Job and JobSet."""
    place, metadata = place_of(pod["metadata"], controller_of(pod)), root["metadata"]
    if place is None or place.kind is not kind or place.name != metadata["name"]:
        return False
    return place.uid in {"", metadata.get("uid")}


def state_of(kind: KindSpec, root: Json) -> str:
    """Return the state of a workload of a kind, with the reason if it says one."""
    if kind is tekton.PIPELINE_RUN:
        return words_of(root)
    return _state_of_job(root) if SYSTEMS[kind].has_jobs else _state_elsewhere(root)


def _state_of_job(root: Json) -> str:
    """Return the condition that ended a Job or JobSet, or that will, else Suspended, else `running`."""
    found = [one for one in at(root, ("status", "conditions")) or () if one.get("status") == "True"]
    decisions = (one for one in found if terminal.decides(one))
    suspended = (one for one in found if one["type"] == "Suspended")
    told = terminal.condition_of(root) or next(decisions, None) or next(suspended, None)
    if told is None:
        return "running"
    return ": ".join(part for part in (told["type"], told.get("reason"), told.get("message")) if part)


def _state_elsewhere(root: Json) -> str:
    """Return how far a workload is: its phase with the reason, or else the condition that says most."""
    for phase_path, message_path in STATES:
        phase, message = at(root, phase_path), at(root, message_path)
        if isinstance(phase, str) and phase:
            return f"{phase}: {message}" if isinstance(message, str) and message else phase
    if at(root, ("kind",)) == FLYTE_WORKFLOW.kind:
        return FLYTE_PHASES.get(at(root, ("status", "phase")) or 0, "running")
    conditions = [one for one in at(root, ("status", "conditions")) or () if one.get("type") and one.get("status")]
    by_time = sorted(conditions, key=lambda one: str(one.get("lastTransitionTime") or ""), reverse=True)
    told = next((one for one in by_time if one["status"] != "False"), None)
    told = next((one for one in conditions if one["type"] == SUCCEEDED), told)
    if told is None:
        return "running"
    kind = told["type"] if told["type"] != SUCCEEDED else ENDS.get(told["status"], "")
    reason = told.get("reason") if told.get("reason") != kind else ""
    return ": ".join(part for part in (kind, reason, told.get("message")) if part)


def _refusal_of(standings: list[Standing], found: list[Pod], events: list[Json]) -> str:
    """Return why no pod of a Job can be created, for the first Job that lacks pods for such a reason; empty if none."""
    for standing in standings:
        its_own = of_job(standing.job, found)
        lacks_pods = sum(not pod.has_ended for pod in its_own) < batch.running_at_once(standing.job["spec"])
        if lacks_pods and not standing.job["spec"].get("suspend"):
            refused = pending.refusal(standing.job, its_own, events)
            if refused:
                return refused
    return ""


def _waiting(root: Json, standings: list[Standing], found: list[Pod], all_pods: list[Json]) -> str:
    """Return the end of the Job controller's back-off, RFC 3339, for a Job without a pod; empty if it does not wait."""
    runs = any(not pod.has_ended for pod in found) or (root.get("spec") or {}).get("suspend")
    if runs or root.get("kind") == JOB_SET.kind or not standings:
        return ""
    return pending.waits_until(standings[0], found, all_pods)


def _is_placed(account: Account, found: list[Pod]) -> bool:
    """Return True if the webhook chose the nodes of the newest pod of which it is known, or if it is of none."""
    of_pods = (pod.placement for pod in sorted(found, key=lambda pod: pod.created, reverse=True))
    said = (*of_pods, *(detail.placement for detail in reversed(account.last)))
    return next((one for one in said if one), "Spot") in PLACEMENTS


def placed_by_nodes(made: Explanation, nodes: Mapping[str, NodeFacts]) -> Explanation:
    """Return an explanation with what nodes say, by name, as a report does: where rows ran, and if nothing is placed.

    Of a node that is gone the policy's decision is shown.
    """
    known = capacities(nodes)
    rows = [replace(row, placement=PLACEMENTS.get(known.get(row.node, ""), row.placement)) for row in made.rows]
    is_unknown = bool(nodes) and not any(known.values())
    placement = NOT_RECOGNISED if made.placement == UNPLACED and is_unknown else made.placement
    return replace(made, rows=rows, placement=placement)
