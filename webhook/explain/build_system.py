"""Explains a workload of another kind than Job and JobSet, such as a Workflow, by its account and its pods. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from webhook.explain import build, pending
from webhook.explain.build import Explanation, Row, running_row, state_of_pod
from webhook.explain.next_failure import NextFailure
from webhook.explain.next_in_system import UNITS, Standing, next_failures
from webhook.kinds import KindSpec
from webhook.kinds.flyte import FLYTE_WORKFLOW
from webhook.kinds.kind_spec import controller_of
from webhook.kinds.places import place_of
from webhook.kube import names
from webhook.ledger.model import counting, words
from webhook.ledger.model.account import Account, Attempt
from webhook.ledger.model.pods import Pod
from webhook.ledger.model.scopes import NO_NUMBER, Scopes
from webhook.ledger.model.stored import reading as stored
from webhook.ledger.model.systems import System
from webhook.objects.left_out import RAISING, LeftOut
from webhook.objects.patch import at
from webhook.objects.problem import Json, Path
from webhook.policy.applied import profile_of
from webhook.policy.model import FailurePolicy
from webhook.policy.settings import NamedProfile
from webhook.retry import record
from webhook.rules import annotations, undo

MOST_SCOPES: Final = 20  # of which the budgets are shown
MOST_OF_RANGE: Final = 1000  # scopes of a range in the account, which any user may write
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


class Spent(NamedTuple):
    """What a scope has spent, and what it may spend; None if that is not known."""

    retries: int
    disruptions: int
    budget: int | None


def explain(system: System, root: Json, parts: Iterable[Json], left_out: LeftOut = RAISING) -> Explanation:
    """Explain a workload, as the API has it; raise UnfitError if its account is malformed.

    `parts`: the pods that are counted for it, decoded as the ledger reads them, and its Account.
    """
    parts = list(parts)
    _, found = build.pods_in(parts, left_out)
    account = account_with(system, root, found, stored.account_of(system.row, root, parts), left_out)
    metadata = root["metadata"]
    alive = [pod for pod in found if not pod.has_failed]
    shown = build.newest(alive)
    following = foretold(system, root, account, found)
    return Explanation(
        kind=system.row.kind,
        namespace=metadata.get("namespace") or "",
        name=metadata["name"],
        state=state(root),
        summary=words.summary(account),
        budgets=[*budgets(system, account, found)],
        earlier=account.ended - len(account.last),
        others=dict(Counter(map(state_of_pod, alive)) - Counter(map(state_of_pod, shown))),
        requested=record.read(root),
        rows=[*map(ended_row, account.last), *(running_row(pod, pod.attempt or 0, pod.scope) for pod in shown)],
        delays=pending.delays(found),
        next=[one.text for one in following],
        forecasts=following,
    )


def is_counted_for(pod: Json, row: KindSpec, root: Json) -> bool:
    """Return True if a pod is counted for a workload."""
    place, metadata = place_of(pod["metadata"], controller_of(pod)), root["metadata"]
    if place is None or place.row is not row or place.name != metadata["name"]:
        return False
    return place.uid in {"", metadata.get("uid")}


def account_with(
    system: System, root: Json, found: Iterable[Pod], account: Account, left_out: LeftOut = RAISING
) -> Account:
    """Return the account of a workload with the failed pods that it does not have yet."""
    settings = build.settings_of(root, account)
    keeps = any(detail.message for detail in account.last)  # the profile that `explain` knows does not say it
    has_ended = system.has_ended(root)
    for pod in sorted((pod for pod in found if pod.has_failed), key=lambda pod: pod.ended):
        with left_out.around("Pod", pod):
            if account.has(pod):  # by its uid: other kinds create pods of the same name
                continue
            counting.count_elsewhere(account, pod, root, system, settings, has_ended=has_ended, keeps_messages=keeps)
    return account


def state(root: Json) -> str:
    """Return how far a workload is: its phase with the reason, or else the condition that says most."""
    for phase_path, message_path in STATES:
        phase, message = at(root, phase_path), at(root, message_path)
        if isinstance(phase, str) and phase:
            return f"{phase}: {message}" if isinstance(message, str) and message else phase
    if at(root, ("kind",)) == FLYTE_WORKFLOW.kind:
        return FLYTE_PHASES.get(at(root, ("status", "phase")) or 0, "running")
    conditions = [one for one in at(root, ("status", "conditions")) or () if one.get("type") and one.get("status")]
    told = max((one for one in conditions if one["status"] != "False"), key=time_of, default=None)
    told = next((one for one in conditions if one["type"] == SUCCEEDED), told)
    if told is None:
        return "running"
    kind = told["type"] if told["type"] != SUCCEEDED else ENDS.get(told["status"], "")
    reason = told.get("reason") if told.get("reason") != kind else ""
    return ": ".join(part for part in (kind, reason, told.get("message")) if part)


def time_of(condition: Json) -> str:
    """Return when a condition last changed."""
    return str(condition.get("lastTransitionTime") or "")


def budgets(system: System, account: Account, found: list[Pod]) -> Iterator[str]:
    """Yield lines that say what each scope has spent, those that spent most first; for MOST_SCOPES of them."""
    spent = spent_by_scope(account, found)
    unit = UNITS.get(system.row, "scope")
    for scope, one in list(spent.items())[:MOST_SCOPES]:
        of = "" if one.budget is None else f" of {one.budget}"
        parts = [f"{words.counted(one.retries, 'retry') if not of else f'{one.retries}{of} retries'} spent"]
        parts += [words.counted(one.disruptions, "disruption")] if one.disruptions else []
        yield f"{f'{unit} {scope}' if scope else 'retries'}: {', '.join(parts)}"
    if len(spent) > MOST_SCOPES:
        yield f"(and {words.counted(len(spent) - MOST_SCOPES, f'other {unit}')}, which spent less or as much)"
    lost = max(retries_in(account).others, account.scopes.others)
    if lost:
        yield f"({unit}s that are not listed spent at most {lost})"
    if account.grants:
        times = words.counted(account.grants, "time")
        yield f"suspended {times} after reaching the disruption limit; a resume allows as many again"


def spent_by_scope(account: Account, found: Iterable[Pod]) -> dict[str, Spent]:
    """Return what the scopes have spent that spent anything, those that spent most first."""
    retries, disruptions = dict(counts_in(retries_in(account))), dict(counts_in(account.scopes))
    limits = budgets_in(account, found)
    spent = {
        scope: Spent(retries.get(scope, 0), disruptions.get(scope, 0), limits.get(scope))
        for scope in sorted({*retries, *disruptions})
    }
    return dict(sorted(spent.items(), key=lambda one: (-one[1].retries, -one[1].disruptions)))


def retries_in(account: Account) -> Scopes:
    """Return the retries of each scope."""
    return Scopes() if account.retries is None else account.retries


def counts_in(scopes: Scopes) -> Iterator[tuple[str, int]]:
    """Yield each scope that is listed with its number, of a range at most MOST_OF_RANGE."""
    for run in scopes.runs:
        if run.disruptions:
            numbers = range(run.first, min(run.last, run.first + MOST_OF_RANGE - 1) + 1)
            for number in numbers:
                yield run.prefix if run.first == NO_NUMBER else f"{run.prefix}{number}", run.disruptions


def budgets_in(account: Account, found: Iterable[Pod]) -> dict[str, int]:
    """Return the retries that scopes may spend: by their newest pods, or else by what was left after an attempt."""
    known: dict[str, int] = {}
    for detail in account.last:
        if detail.left is not None and detail.cost != "fatal":
            known[detail.scope] = detail.left.retries + account.retries_of(detail.scope)
    for pod in sorted(found, key=lambda pod: pod.created):
        if pod.max_retries is not None:
            known[pod.scope] = pod.max_retries
    return known


def ended_row(detail: Attempt) -> Row:
    """Return the row of an attempt that has ended."""
    return replace(build.ended_row(detail), rule=why_fatal(detail) if detail.cost == "fatal" else "")


def why_fatal(detail: Attempt) -> str:
    """Return why the end of an attempt was the end of its scope or its workload."""
    if detail.on_failure is not None:
        return f"the ledger: rule {detail.on_failure} of onFailure" if detail.settled else ""
    if detail.settled:
        return "the ledger: a bug"
    return "a bug, or no retry left"


def foretold(system: System, root: Json, account: Account, found: list[Pod]) -> list[NextFailure]:
    """Return what the next failure does; nothing if the workload has ended, or nothing says what its profile is."""
    live = [pod for pod in found if not pod.has_ended and not pod.deleting]
    known, noted = build.policy_of(root, account), undo.read(root)
    profile = known
    if profile is None and account.applied is not None and annotations.of(root).get(names.SKIP) != "true":
        codes = FailurePolicy().retriable_exit_codes
        profile = NamedProfile("" if noted is None else noted.profile, profile_of(account.applied, codes))
    if profile is None or system.has_ended(root):
        return []
    knows_codes = known is not None
    standing = Standing(system=system, root=root, account=account, live=live, profile=profile, knows_codes=knows_codes)
    return [*next_failures(standing)]
