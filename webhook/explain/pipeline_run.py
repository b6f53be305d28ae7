"""The attempts of a PipelineRun's tasks, what they cost, and their budgets. Pure.

Tekton keeps how each attempt ended in the status of its TaskRun. The account has what Tekton does not keep: pods that
were created again for free, the attempts before a requested retry, nodes, and what the leader did.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from webhook.accounts import words
from webhook.accounts.account import Account, Attempt
from webhook.explain.rows import PLACEMENTS, Row, ended_row
from webhook.objects.left_out import LeftOut
from webhook.objects.patch import at
from webhook.objects.problem import Json
from webhook.pods.pods import Pod
from webhook.systems.pods import scope_named
from webhook.systems.tekton import spec as tekton
from webhook.systems.tekton.pods import scope_of_task
from webhook.systems.tekton.rerun import succeeded_of, task_of, words_of

REPLACED: Final = ("disruption", "free")  # what the end of a pod costs that Tekton creates again under the same name


def rows_of(
    children: list[Json], account: Account, known: Iterable[Pod], left_out: LeftOut
) -> tuple[list[Row], list[Json]]:
    """Return a row for each attempt, those that have begun first, and the children that are not left out.

    `children`: the TaskRuns and CustomRuns; `known`: their pods.
    """
    found = {pod.name: pod for pod in known}
    rows: list[Row] = []
    kept: list[Json] = []
    for child in children:
        with left_out.around(str(child.get("kind")), child):
            rows += [*_rows_of_task(child, found)]
            kept.append(child)
    return sorted(_merged(rows, account.last), key=lambda row: (not row.start, row.start)), kept


def _merged(rows: list[Row], details: list[Attempt]) -> Iterator[Row]:
    """Yield the rows of attempts with what the account has of them, and those of pods that only the account has.

    A pod that is created again for free has the name of the one before it: the last one is that of the attempt.
    """
    of_pods: dict[str, Attempt] = {}
    for detail in details:
        earlier = of_pods.pop(detail.pod, None)
        if earlier is not None:
            yield ended_row(tekton.PIPELINE_RUN, earlier)
        of_pods[detail.pod] = detail
    for row in rows:
        found = of_pods.get(row.pod)
        if found is not None and _is_of(row, found):
            del of_pods[row.pod]
            counted = ended_row(tekton.PIPELINE_RUN, found)
            row = replace(  # noqa: PLW2901
                counted, unit=row.unit, attempt=row.attempt, start=row.start, end=row.end, ended=row.ended
            )
        yield row
    yield from (ended_row(tekton.PIPELINE_RUN, detail) for detail in of_pods.values())


def _is_of(row: Row, detail: Attempt) -> bool:
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
        retries, unit = at(child, ("spec", "retries")) or 0, _unit_of(child)
        spent = [f"{len(_earlier_of(child))} of {words.counted(retries, 'retry')} spent"] if retries else []
        disruptions = account.scopes.of(unit)
        if disruptions:
            spent.append(f"{words.counted(disruptions, 'disruption')} without a retry")
        if spent:
            yield f"{f'task {unit}: ' if unit else ''}{', '.join(spent)}"


def _unit_of(child: Json) -> str:
    task = task_of(child)
    return scope_named(scope_of_task(task, child["metadata"]["name"])) if task else ""


def _rows_of_task(child: Json, found: dict[str, Pod]) -> Iterator[Row]:
    earlier = _earlier_of(child)
    retries = at(child, ("spec", "retries")) or 0
    for attempt, status in enumerate((*earlier, child.get("status") or {})):
        state = succeeded_of({"status": status})
        is_last = attempt == len(earlier)
        costs = {"True": "none", "False": "fatal" if is_last else "retry"}
        pod = found.get(status.get("podName") or "")
        yield Row(
            attempt=attempt,
            unit=_unit_of(child),
            pod=status.get("podName") or "",
            node="" if pod is None else pod.node,
            placement="" if pod is None else PLACEMENTS.get(pod.placement, ""),
            start=_start_of(status, pod),
            end=status.get("completionTime") or "",
            ended="succeeded" if state == "True" else words_of({"status": status}),
            rule="",
            cost=costs.get(state, ""),
            retries_left=max(0, retries - attempt - (not is_last)) if retries else None,
            disruptions_left=None,
        )


def _start_of(status: Json, pod: Pod | None) -> str:
    """Return when an attempt began: a busy Tekton may note its start after its pod has ended."""
    noted: str = status.get("startTime") or ""
    return min(noted, pod.created) if noted and pod is not None and pod.created else noted


def _earlier_of(child: Json) -> list[Json]:
    found: list[Json] = at(child, ("status", "retriesStatus")) or []
    return found
