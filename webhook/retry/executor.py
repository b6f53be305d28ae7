"""Carries requested retries out, step by step: wherever one stops, anybody who may can continue.

A Job runs again as another one, its successor, which takes the place of a placeholder; anything else as it is.
"""

import asyncio
import dataclasses
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Final

from webhook.kinds import KindSpec, batch
from webhook.kube import names, terminal
from webhook.kube.client import CHANGED, Api, ApiError
from webhook.kube.clock import utc_now
from webhook.objects.problem import Json
from webhook.retry import requests
from webhook.retry.errors import FINAL, RefusedError, StuckError, brief
from webhook.retry.kinds import job as of_job
from webhook.retry.kinds import refusals
from webhook.retry.kinds.adapter import Adapter, InPlace, Workload
from webhook.retry.reading import children_of, controller, workload_of

TRIES: Final = 5
TAKEN_UP_WITHIN: Final = 10.0  # seconds for Tekton's controller to have seen what was deleted
COUNTED_WITHIN: Final = 4.0  # seconds from the end of a Job until the ledger has counted all of its pods
GONE_WITHIN: Final = 60.0  # seconds that finalizers may take
LOOK_AGAIN: Final = 0.1


async def rerun(  # noqa: PLR0913 - what is done, for whom, and how
    api: Api, adapter: Adapter, run: Json, by: str, when: str, *, keep_finally: bool = False, dry_run: bool = False
) -> None:
    """Make what has failed run again, with `dry_run` only find out whether it could.

    `run`: the object, or the placeholder of a Job; `by`: who asked; `when`: RFC 3339. Raise RefusedError, StuckError,
    and what `Api` raises.
    """
    if adapter.in_place is not None:
        metadata = run["metadata"]
        path = adapter.row.path(metadata["namespace"], metadata["name"])
        before = Workload(root=run, run=run, when=when, keep_finally=keep_finally)
        await InPlaceRerun(api, adapter, adapter.in_place, path, before, by).run(dry_run=dry_run)
    elif not of_job.is_placeholder(run):
        await replace_job(api, run, by, when, dry_run=dry_run)
    elif not dry_run:
        await resume(api, run)


async def as_it_is_now(api: Api, job: Json) -> Json:
    """Return a Job that can be asked to run again as it is now; raise RefusedError, and what `Api` raises."""
    metadata = job["metadata"]
    current = await api.find(batch.JOB.path(metadata["namespace"], metadata["name"]))
    if current is None or current["metadata"]["uid"] != metadata["uid"]:
        raise RefusedError.of(refusals.is_gone(refusals.named("Job", job)))
    if problem := of_job.refusal(current, await controller(api, of_job.ADAPTER, current)):
        raise RefusedError.of(problem)
    return current


def until_counted(job: Json, now: datetime) -> float:
    """Return in how many seconds the ledger will have counted the last pods of a Job that has failed.

    They go with it, and its account goes on without them if they are not counted by then.
    """
    ended = terminal.ended_at(job)
    if ended is None or names.PROFILE not in (job["metadata"].get("labels") or {}):
        return 0.0
    since = (now - datetime.fromisoformat(ended)).total_seconds()
    return min(max(0.0, COUNTED_WITHIN - since), COUNTED_WITHIN)


async def replace_job(api: Api, job: Json, by: str, when: str, *, dry_run: bool = False) -> None:
    """Create a Job that has failed again, under its name; raise RefusedError, StuckError, and what `Api` raises."""
    metadata = job["metadata"]
    name_ = f"Job {metadata['namespace']}/{metadata['name']}"
    placeholder_name = of_job.placeholder_name(metadata["name"], metadata["uid"])
    begun = await api.find(batch.JOB.path(metadata["namespace"], placeholder_name))
    if begun is not None and of_job.is_placeholder(begun):
        if not dry_run:
            await resume(api, begun)
        return
    await asyncio.sleep(0.0 if dry_run else until_counted(job, utc_now()))
    job = await as_it_is_now(api, job)
    if batch.is_queued(metadata):
        job = of_job.before_kueue(job, await workload_of(api, job))
    planned = of_job.placeholder_for(job, by, when)
    jobs, name = batch.JOB.path(metadata["namespace"]), planned["metadata"]["name"]
    trial = of_job.successor(planned)
    trial["metadata"]["name"] = name
    try:
        accepted = await api.create(jobs, trial, dry_run=True)
        if of_job.is_queued_by_others(accepted, of_job.state_of(planned)):
            raise RefusedError(
                f"{name_} would be put into a Kueue queue, which it was not in before", "create it again"
            )
        placeholder = await api.create(jobs, planned, dry_run=dry_run)
    except ApiError as error:
        found = await api.find(f"{jobs}/{name}") if error.status == HTTPStatus.CONFLICT else None
        if found is None or (found["metadata"].get("labels") or {}).get(names.RETRY_OF) != metadata["uid"]:
            of_quota = found is None and error.status == HTTPStatus.CONFLICT  # which changes all the time
            if of_quota or error.status not in FINAL:
                raise
            what = f"{name_} would not be accepted if it were created now: {brief(error)}"
            raise RefusedError(what, "nothing was changed: remove the cause, and request the retry again") from None
        placeholder = found  # somebody else has asked: it is one and the same retry
    if not dry_run:
        await resume(api, placeholder)


async def resume(api: Api, placeholder: Json) -> None:
    """Bring the retry of a placeholder to its end; raise as `rerun` does."""
    namespace = placeholder["metadata"]["namespace"]
    state: of_job.RetryState | None = readable_state(placeholder)
    if state is not None and state.stage == "Stored":
        await check_before_deletion(api, placeholder, state)
        state = await advance(api, placeholder, "Deleting")
    if state is not None and state.stage == "Deleting":
        await put_in_place(api, placeholder, state)
        state = await advance(api, placeholder, "Created")
    if state is not None:
        await release_successor(api, namespace, state)
        await delete_placeholder(api, placeholder)


def readable_state(placeholder: Json) -> of_job.RetryState:
    """Read the retry state of a placeholder; raise StuckError where somebody has spoilt it."""
    try:
        return of_job.state_of(placeholder)
    except ValueError as error:
        name = f"{placeholder['metadata']['namespace']}/{placeholder['metadata']['name']}"
        what = f"Job {name} is a placeholder, and its annotation {names.SUCCESSOR} cannot be read: {error}"
        raise StuckError(what, "create the failed Job again, and delete this one") from None


async def check_before_deletion(api: Api, placeholder: Json, state: of_job.RetryState) -> None:
    """See to it that the Job is still what was asked for; without it there may have been another retry."""
    namespace = placeholder["metadata"]["namespace"]
    job = await api.find(batch.JOB.path(namespace, state.name))
    if job is None:
        placeholder_name = f"{namespace}/{placeholder['metadata']['name']}"
        what = f"Job {namespace}/{state.name} was deleted by another user"
        raise StuckError(what, f"create it again: Job {placeholder_name} has its manifest")
    if job["metadata"]["uid"] != state.uid or not terminal.has_failed(job):
        await delete_placeholder(api, placeholder)
        again = of_job.is_successor(job, state.uid)
        what = "runs again already, as another user requested" if again else "has changed since the request"
        raise RefusedError(
            f"Job {namespace}/{state.name} {what}",
            "nothing was changed: look at it, and request the retry again if needed",
        )


async def advance(api: Api, placeholder: Json, stage: of_job.Stage) -> of_job.RetryState | None:
    """Write how far it has come; return the state then, None where somebody else has come to the end."""
    path = batch.JOB.path(placeholder["metadata"]["namespace"], placeholder["metadata"]["name"])
    try:
        found: Json | None = await api.patch(path, of_job.staged(placeholder, stage))
    except ApiError as error:
        if error.status not in {HTTPStatus.NOT_FOUND, *CHANGED}:
            raise
        found = await api.find(path)  # somebody else goes on with it too
    if found is None:
        return None
    placeholder.update(found)
    return readable_state(placeholder)


async def put_in_place(api: Api, placeholder: Json, state: of_job.RetryState) -> None:
    """Have the successor stand where the Job was."""
    namespace = placeholder["metadata"]["namespace"]
    jobs, path = batch.JOB.path(namespace), batch.JOB.path(namespace, state.name)
    keeper = f"{namespace}/{placeholder['metadata']['name']}"
    remedy = f"request the retry again to continue: Job {keeper} has its manifest"
    try:
        async with asyncio.timeout(GONE_WITHIN) as within:
            while (there := await api.find(path)) is not None and there["metadata"]["uid"] == state.uid:
                if not there["metadata"].get("deletionTimestamp"):
                    await delete(api, path, state.uid)
                else:
                    await asyncio.sleep(LOOK_AGAIN)
    except TimeoutError:
        if not within.expired():
            raise
        raise StuckError(f"Job {namespace}/{state.name} is being deleted, but a finalizer holds it", remedy) from None
    if there is None:
        try:
            there = await api.create(jobs, of_job.successor(placeholder))
        except ApiError as error:
            there = await api.find(path) if error.status == HTTPStatus.CONFLICT else None
            if there is None:
                raise StuckError(
                    f"Job {namespace}/{state.name} is rejected by the API server: {brief(error)}", remedy
                ) from None
    if not of_job.is_successor(there, state.uid):
        raise StuckError(f"another user has created a Job {namespace}/{state.name} in the meantime", remedy)


async def release_successor(api: Api, namespace: str, state: of_job.RetryState) -> None:
    """Write into the successor what is done, and release it."""
    path = batch.JOB.path(namespace, state.name)
    job = await api.find(path)
    if job is None or not of_job.is_successor(job, state.uid):
        return  # it has run and gone since
    try:
        if not of_job.is_released(job, state.uid):
            if done := of_job.done_already(state.done):
                await api.patch(f"{path}/status", [of_job.unless_released(state), *done])
            await api.patch(path, of_job.release(state))
    except ApiError as error:
        now = await api.find(path)
        if now is not None and not of_job.is_released(now, state.uid):
            what = f"Job {namespace}/{state.name} exists again, suspended, and cannot be resumed"
            raise StuckError(f"{what}: {brief(error)}", "request the retry again to continue") from None


async def delete_placeholder(api: Api, placeholder: Json) -> None:
    """Delete a placeholder."""
    metadata = placeholder["metadata"]
    await delete(api, batch.JOB.path(metadata["namespace"], metadata["name"]), metadata["uid"])


async def delete(api: Api, path: str, uid: str, *, after: bool = False) -> None:
    """Delete an object that may be gone already; `after` what it owns."""
    try:
        await api.delete(path, uid, after=after)
    except ApiError as error:
        if error.status not in {HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT}:
            raise


async def forget(api: Api, row: KindSpec, root: Json) -> None:
    """Take off an object what says that it is to run again, unless it is asked for anew meanwhile."""
    metadata = root["metadata"]
    try:
        if operations := requests.forget(root):
            await api.patch(row.path(metadata["namespace"], metadata["name"]), operations)
    except ApiError as error:
        if error.status not in {HTTPStatus.NOT_FOUND, HTTPStatus.UNPROCESSABLE_ENTITY}:
            raise


@dataclass(frozen=True, slots=True)
class InPlaceRerun:
    """One retry of an object as it is. `before`: the object when that was asked for; `by`: who asked."""

    api: Api
    adapter: Adapter
    in_place: InPlace
    path: str
    before: Workload
    by: str

    async def run(self, *, dry_run: bool) -> None:
        """Carry it out; raise as `rerun` does."""
        if dry_run:
            self.check(await self.read())
            return
        first: Workload | None = None
        is_resumed = False
        for _ in range(TRIES):
            now = await self.read()
            if first is not None and self.in_place.has_begun(now, first):
                await forget(self.api, self.adapter.row, now.root)  # another user asked at the same time
                return
            if is_resumed and self.in_place.is_stopped(now):
                raise RefusedError(f"{self.name} was cancelled after the request", "request the retry again")
            stored = await self.write(now, is_ended=first is None or not self.in_place.is_taken_back(now))
            first = first or now
            if stored is None:
                continue
            is_resumed = True
            if not self.in_place.watches_controller or await self.is_taken_up(first):
                await forget(self.api, self.adapter.row, stored)
                return
        raise StuckError(f"{self.name} was changed or ended by others each time", "request the retry again to continue")

    @property
    def name(self) -> str:
        """How messages name the object."""
        return refusals.named(self.adapter.row.kind, self.before.root)

    async def read(self) -> Workload:
        """Return the object as it is now; raise RefusedError if it is gone."""
        # Children first, so that none that its controller makes meanwhile is among them.
        children = await children_of(self.api, self.adapter, self.before.root)
        found = await self.api.find(self.path)
        if found is None:
            raise RefusedError.of(refusals.is_gone(self.name))
        return dataclasses.replace(self.before, root=found, run=found, children=children)

    async def write(self, now: Workload, *, is_ended: bool) -> Json | None:
        """Write what lets the object run; return it as it is stored then, None if it has changed meanwhile."""
        try:
            stored = await self.take_back(now) if is_ended else now.root
            if operations := self.in_place.resume(stored):
                await self.api.patch(self.path, operations)
        except ApiError as error:
            if error.status not in CHANGED:
                raise
            return None
        return stored

    def check(self, now: Workload) -> None:
        """Raise RefusedError if it cannot run again."""
        if problem := self.adapter.refusal(now):
            raise RefusedError.of(problem)

    async def take_back(self, now: Workload) -> Json:
        """Take back that the object has ended; return it as it is stored then."""
        self.check(now)
        steps, stored = self.in_place.steps(now, self.by), now.root
        if steps.record:
            stored = await self.api.patch(self.path, steps.record)
        await delete_all(self.api, self.adapter, steps.deleted)
        return await self.api.replace(f"{self.path}/status", steps.again(stored))

    async def is_taken_up(self, first: Workload) -> bool:
        """Return True if its controller goes on with it, False if that ends it at once by what it remembers.

        One that has other children than `first` has been taken up, however it ends.
        """
        now: Workload | None = None
        try:
            async with asyncio.timeout(TAKEN_UP_WITHIN) as within:
                while (now := await self.read_as_ended()) is not None:
                    if self.in_place.has_begun(now, first):
                        return True
                    if not self.in_place.is_taken_back(now):
                        break
                    await asyncio.sleep(LOOK_AGAIN)
        except TimeoutError:
            if not within.expired():
                raise
            return True  # it has not been ended, and will be taken up once its controller is there again
        return now is None or bool(terminal.has_ended_well(now.root))

    async def read_as_ended(self) -> Workload | None:
        """Return the object; None if it is gone. Its children are read after it: one that has ended has all of them."""
        found = await self.api.find(self.path)
        if found is None:
            return None
        children = await children_of(self.api, self.adapter, found)
        return dataclasses.replace(self.before, root=found, run=found, children=children)


async def delete_all(api: Api, adapter: Adapter, children: tuple[Json, ...]) -> None:
    """Delete what an object runs; return once it is gone; raise StuckError where a finalizer holds it."""
    rows = {} if adapter.children is None else {row.kind: row for row in adapter.children.rows}
    paths = {}
    for child in children:
        metadata = child["metadata"]
        paths[rows[child["kind"]].path(metadata["namespace"], metadata["name"])] = metadata["uid"]
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
        raise StuckError(
            f"a finalizer holds some of {held}, which are being deleted", "request the retry again to continue"
        ) from None
