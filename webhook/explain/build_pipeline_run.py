"""Explains how each attempt of a PipelineRun's tasks ended, and what it cost. Pure.

Tekton keeps how each attempt ended in the status of its TaskRun. The account has what Tekton does not keep: pods that
were created again for free, the attempts before a requested retry, nodes, and what the leader did.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from webhook.explain.build import PLACEMENTS, Explanation, Row, pods_in
from webhook.explain.build_system import account_with, ended_row, foretold
from webhook.kinds import tekton
from webhook.kinds.places import scope_named, scope_of_task
from webhook.ledger.model import words
from webhook.ledger.model.account import Account, Attempt
from webhook.ledger.model.pods import Pod
from webhook.ledger.model.stored import reading as stored
from webhook.ledger.model.systems.tekton import PIPELINE_RUN as SYSTEM
from webhook.objects.left_out import RAISING, LeftOut
from webhook.objects.patch import at
from webhook.objects.problem import Json
from webhook.retry import record
from webhook.retry.kinds.pipeline_run import succeeded_of, task_of, words_of

REPLACED: Final = ("disruption", "free")  # what the end of a pod costs that Tekton creates again under the same name


def explain(run: Json, children: list[Json], parts: Iterable[Json], left_out: LeftOut = RAISING) -> Explanation:
    """Explain a PipelineRun, as the API has it; raise UnfitError if its account is malformed.

    `children`: its TaskRuns and CustomRuns; `parts`: their pods, and its Account.
    """
    metadata, parts = run["metadata"], list(parts)
    _, known = pods_in(parts, left_out)
    account = account_with(SYSTEM, run, known, stored.account_of(SYSTEM.row, run, parts), left_out)
    following = foretold(SYSTEM, run, account, known)
    found = {pod.name: pod for pod in known}
    rows, ended = [], []
    for child in children:
        with left_out.around(str(child.get("kind")), child):
            rows += [*rows_of(child, found)]
            ended.append(child)
    children = ended
    with_account = [*merged(rows, account.last)]
    return Explanation(
        kind=tekton.PIPELINE_RUN.kind,
        namespace=metadata.get("namespace") or "",
        name=metadata["name"],
        state=words_of(run),
        summary=summary(children, account),
        budgets=[*budgets(children, account)],
        earlier=0,
        requested=record.read(run),
        rows=sorted(with_account, key=lambda row: (not row.start, row.start)),
        next=[one.text for one in following],
        forecasts=following,
    )


def merged(rows: list[Row], details: list[Attempt]) -> Iterator[Row]:
    """Yield the rows of attempts with what the account has of them, and those of pods that only the account has.

    A pod that is created again for free has the name of the one before it: the last one is that of the attempt.
    """
    of_pods: dict[str, Attempt] = {}
    for detail in details:
        earlier = of_pods.pop(detail.pod, None)
        if earlier is not None:
            yield ended_row(earlier)
        of_pods[detail.pod] = detail
    for row in rows:
        found = of_pods.get(row.pod)
        if found is not None and is_of(row, found):
            del of_pods[row.pod]
            counted = ended_row(found)
            row = replace(  # noqa: PLW2901
                counted, unit=row.unit, attempt=row.attempt, start=row.start, end=row.end, ended=row.ended
            )
        yield row
    yield from map(ended_row, of_pods.values())


def is_of(row: Row, detail: Attempt) -> bool:
    """Return True if an attempt of the account is the one in a row; both have the same pod's name.

    Else its pod was created again for free, or its TaskRun was for a requested retry.
    """
    failed = bool(row.end) and row.cost != "none"
    return failed and detail.cost not in REPLACED and detail.end >= row.start


def summary(children: list[Json], account: Account) -> str:
    """Return how many tasks have begun, succeeded and failed, and what their attempts cost.

    Such as `3 tasks begun: 2 succeeded, 1 failed; 2 attempts ended: 1 retry, 1 disruption`.
    """
    ended = [succeeded_of(child) for child in children]
    states = {"succeeded": ended.count("True"), "failed": ended.count("False")}
    states["not over"] = len(ended) - sum(states.values())
    told = ", ".join(f"{number} {state}" for state, number in states.items() if number)
    begun = f"{words.counted(len(children), 'task')} begun" + (f": {told}" if told else "")
    return f"{begun}; {words.summary(account)}" if account.ended else begun


def budgets(children: list[Json], account: Account) -> Iterator[str]:
    """Yield a line for each task with retries, or with disruptions that cost none, that says how many there were."""
    for child in children:
        retries, unit = at(child, ("spec", "retries")) or 0, unit_of(child)
        spent = [f"{len(earlier_of(child))} of {words.counted(retries, 'retry')} spent"] if retries else []
        disruptions = account.scopes.of(unit)
        if disruptions:
            spent.append(f"{words.counted(disruptions, 'disruption')} without a retry")
        if spent:
            yield f"{f'task {unit}: ' if unit else ''}{', '.join(spent)}"


def unit_of(child: Json) -> str:
    """Return the scope of a TaskRun in its PipelineRun; empty without one."""
    task = task_of(child)
    return scope_named(scope_of_task(task, child["metadata"]["name"])) if task else ""


def rows_of(child: Json, found: dict[str, Pod]) -> Iterator[Row]:
    """Yield a row for each attempt of a task."""
    earlier = earlier_of(child)
    retries = at(child, ("spec", "retries")) or 0
    for attempt, status in enumerate((*earlier, child.get("status") or {})):
        state = succeeded_of({"status": status})
        is_last = attempt == len(earlier)
        costs = {"True": "none", "False": "fatal" if is_last else "retry"}
        pod = found.get(status.get("podName") or "")
        yield Row(
            attempt=attempt,
            unit=unit_of(child),
            pod=status.get("podName") or "",
            node="" if pod is None else pod.node,
            placement="" if pod is None else PLACEMENTS.get(pod.placement, ""),
            start=status.get("startTime") or "",
            end=status.get("completionTime") or "",
            ended="succeeded" if state == "True" else words_of({"status": status}),
            rule="",
            cost=costs.get(state, ""),
            retries_left=max(0, retries - attempt - (not is_last)) if retries else None,
            disruptions_left=None,
        )


def earlier_of(child: Json) -> list[Json]:
    """Return the statuses of a TaskRun's earlier attempts, oldest first."""
    found: list[Json] = at(child, ("status", "retriesStatus")) or []
    return found
