"""Explains how each attempt of a PipelineRun's tasks ended, by its TaskRuns, as far as Tekton keeps them. Pure.

A PipelineRun has no account. What ran before a requested retry is known only from the record of that retry.
"""

from collections.abc import Iterable, Iterator

from webhook.explain.build import PLACEMENTS, Explanation, Row
from webhook.kinds import tekton
from webhook.ledger.model import pods, words
from webhook.ledger.model.pods import Pod
from webhook.objects.patch import at
from webhook.objects.problem import Json
from webhook.retry import record
from webhook.retry.kinds.pipeline_run import succeeded_of, task_of, words_of


def explain(run: Json, children: list[Json], all_pods: Iterable[Json]) -> Explanation:
    """Explain a PipelineRun, as the API has it; `children`: its TaskRuns and CustomRuns; `all_pods`: their pods."""
    found = {pod.name: pod for pod in map(pods.read, all_pods)}
    rows = sorted(
        (row for child in children for row in rows_of(child, found)), key=lambda row: (not row.start, row.start)
    )
    metadata = run["metadata"]
    return Explanation(
        kind=tekton.PIPELINE_RUN.kind,
        namespace=metadata.get("namespace") or "",
        name=metadata["name"],
        state=words_of(run),
        summary=summary(children),
        budgets=[*budgets(children)],
        earlier=0,
        requested=record.read(run),
        rows=rows,
    )


def summary(children: list[Json]) -> str:
    """Return how many tasks have begun, succeeded and failed, such as `3 tasks begun: 2 succeeded, 1 failed`."""
    ended = [succeeded_of(child) for child in children]
    states = {"succeeded": ended.count("True"), "failed": ended.count("False")}
    states["not over"] = len(ended) - sum(states.values())
    told = ", ".join(f"{number} {state}" for state, number in states.items() if number)
    return f"{words.counted(len(children), 'task')} begun" + (f": {told}" if told else "")


def budgets(children: list[Json]) -> Iterator[str]:
    """Yield a line for each task with retries that says how many of them are spent."""
    for child in children:
        retries = at(child, ("spec", "retries")) or 0
        if retries:
            yield f"task {task_of(child)}: {len(earlier_of(child))} of {words.counted(retries, 'retry')} spent"


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
            unit=task_of(child),
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
