"""Carries requested retries of PipelineRuns out; see retrying."""

import asyncio
from typing import Final

from webhook.kinds import tekton
from webhook.kube.client import CHANGED, Api, ApiError
from webhook.objects.problem import Json
from webhook.retry import record
from webhook.retry.executor import (
    CHILDREN,
    GONE_WITHIN,
    LOOK_AGAIN,
    TRIES,
    RefusedError,
    StuckError,
    delete,
    forget,
    path_of,
)
from webhook.retry.kinds import pipeline_run as of_pipeline_run
from webhook.retry.kinds import refusals

TAKEN_UP_WITHIN: Final = 10.0  # seconds for Tekton's controller to have seen what was deleted


async def children_of(api: Api, run: Json) -> list[Json]:
    """Return what a PipelineRun has made that runs a task."""
    metadata = run["metadata"]
    selector = {"labelSelector": f"{of_pipeline_run.LABEL}={metadata['name']}"}
    return [
        {**one, "kind": row.kind}
        for row in CHILDREN
        async for one in api.objects(path_of(row, metadata["namespace"]), selector)
        if of_pipeline_run.is_child(one, run)
    ]


def uids_of(children: list[Json]) -> set[str]:
    """Return what tells them from others of their names."""
    return {child["metadata"]["uid"] for child in children}


async def retry_pipeline_run(api: Api, run: Json, by: str, when: str, *, keep_finally: bool) -> None:
    """Have a PipelineRun that has failed run again; raise RefusedError, StuckError, and what `Api` raises."""
    metadata = run["metadata"]
    path = path_of(tekton.PIPELINE_RUN, metadata["namespace"], metadata["name"])
    name = f"PipelineRun {metadata['namespace']}/{metadata['name']}"
    before: set[str] = set()
    is_let_run = False
    for number in range(TRIES):
        children = await children_of(api, run)  # first, so that none that it makes meanwhile is among them
        found = await api.find(path)
        if found is None:
            raise RefusedError.of(refusals.is_gone(name))
        before = before if number else uids_of(children)
        if uids_of(children) - before:
            await forget(api, tekton.PIPELINE_RUN, found)
            return  # somebody else has had it run again, who asked at the same time
        if is_let_run and found["spec"].get("status"):
            raise RefusedError(f"{name} has been cancelled since", "ask again")
        try:
            if number == 0 or of_pipeline_run.succeeded_of(found) != "Unknown":
                found = await take_back(api, path, found, children, by, when, keep_finally=keep_finally)
            if let_run := of_pipeline_run.let_run(found):
                await api.patch(path, let_run)
            is_let_run = True
        except ApiError as error:
            if error.status not in CHANGED:
                raise
            continue  # it has changed meanwhile
        if await is_taken_up(api, path, before):
            await forget(api, tekton.PIPELINE_RUN, found)
            return
    raise StuckError(f"{name} is ended again at once by its controller", "ask again to go on")


async def take_back(  # noqa: PLR0913, PLR0917 - as above
    api: Api, path: str, run: Json, children: list[Json], by: str, when: str, *, keep_finally: bool
) -> Json:
    """Take back that a PipelineRun has ended; return it; raise as above."""
    if of_pipeline_run.is_noted(run):
        keep_finally = record.read(run)[-1].keep_finally  # as it was asked for by whoever has begun
    if problem := of_pipeline_run.refusal(run, children, when, keep_finally=keep_finally):
        raise RefusedError.of(problem)
    planned = of_pipeline_run.plan(run, children, keep_finally=keep_finally)
    if not of_pipeline_run.is_noted(run):
        run = await api.patch(path, of_pipeline_run.noted(run, planned, by, when, keep_finally=keep_finally))
    await delete_all(api, planned.gone)
    return await api.replace(f"{path}/status", of_pipeline_run.run_again(run, planned, when))


async def delete_all(api: Api, children: list[Json]) -> None:
    """Delete what runs tasks; come back once it is gone; raise StuckError where a finalizer holds it."""
    rows = {row.kind: row for row in CHILDREN}
    paths = {}
    for child in children:
        metadata = child["metadata"]
        paths[path_of(rows[child["kind"]], metadata["namespace"], metadata["name"])] = metadata["uid"]
    for path, uid in paths.items():
        await delete(api, path, uid, after=True)  # a TaskRun of its name would take its pod for one of its own
    try:
        async with asyncio.timeout(GONE_WITHIN) as within:
            for path, uid in paths.items():
                while (there := await api.find(path)) is not None and there["metadata"]["uid"] == uid:  # noqa: ASYNC110
                    await asyncio.sleep(LOOK_AGAIN)
    except TimeoutError:
        if not within.expired():
            raise
        held = ", ".join(child["metadata"]["name"] for child in children)
        raise StuckError(f"of {held} something is deleted but held by a finalizer", "ask again to go on") from None


async def is_taken_up(api: Api, path: str, before: set[str]) -> bool:
    """Tell whether Tekton's controller goes on with a PipelineRun, and does not end it by what it remembers.

    `before`: the uids of its children when it was asked to. One that has others has been taken up, however it ends.
    """
    run: Json | None = None
    try:
        async with asyncio.timeout(TAKEN_UP_WITHIN) as within:
            while (run := await api.find(path)) is not None:
                if uids_of(await children_of(api, run)) - before:
                    return True
                if of_pipeline_run.succeeded_of(run) != "Unknown":
                    break
                await asyncio.sleep(LOOK_AGAIN)
    except TimeoutError:
        if not within.expired():
            raise
        return True  # it has not been ended, and will be taken up once its controller is there again
    return run is None or of_pipeline_run.succeeded_of(run) == "True"
