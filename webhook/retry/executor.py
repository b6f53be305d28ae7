"""Runs requested retries step by step; a retry that is interrupted can be continued by any user with the permissions.

A Job runs again as another Job, its successor, which is created from a placeholder. Other objects run again in place.
"""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from itertools import pairwise
from typing import Final, get_args

from webhook.kube import names, terminal
from webhook.kube.client import CHANGED, Api, ApiError
from webhook.kube.clock import utc_now
from webhook.objects.problem import Json
from webhook.objects.times import seconds
from webhook.policy.causes import need_rows
from webhook.retry import record, requests
from webhook.retry.reading import FINAL, RefusedError, StuckError, brief, children_of, controller, workload_of
from webhook.systems import account_object as account
from webhook.systems import kueue, refusals
from webhook.systems.adapter import Adapter, InPlace, Workload
from webhook.systems.job import rerun as of_job
from webhook.systems.job import spec as batch
from webhook.systems.kind_spec import KindSpec

TRIES: Final = 5
RUN_WITHIN: Final = 10.0  # seconds within which Tekton's controller sees that TaskRuns were deleted
COUNTED_WITHIN: Final = 4.0  # seconds from the end of a Job until the ledger has counted all of its pods
DELETED_WITHIN: Final = 60.0  # seconds that finalizers may take
ACCOUNT_WITHIN: Final = 10.0  # seconds within which the ledger continues an account
POLL_INTERVAL: Final = 0.1  # seconds between two reads


async def rerun(  # noqa: PLR0913 - the object, and the parameters of the retry
    api: Api, adapter: Adapter, run: Json, by: str, when: str, *, keep_finally: bool = False, dry_run: bool = False
) -> Json | None:
    """Run a failed object again, and return it, of a Job as `resume`; with `dry_run` only check if that is possible.

    `run`: the object, or the placeholder of a Job. `by`: the user who requested the retry. `when`: the time, RFC 3339.
    Raise RefusedError, StuckError, and as `Api` does.
    """
    if adapter.in_place is not None:
        before = Workload(root=run, run=run, when=when, keep_finally=keep_finally)
        rerunning = InPlaceRerun(api, adapter, adapter.in_place, adapter.kind.path_to(run), before, by)
        await rerunning.run(dry_run=dry_run)
        return run
    if not of_job.is_placeholder(run):
        return await _replace_job(api, run, by, when, dry_run=dry_run)
    return None if dry_run else await resume(api, run)


async def _current_job(api: Api, job: Json) -> Json:
    """Return the current state of a Job; raise RefusedError if it cannot run again, and as `Api` does."""
    current = await api.find(batch.JOB.path_to(job))
    if current is None or current["metadata"]["uid"] != job["metadata"]["uid"]:
        raise RefusedError.of(refusals.is_gone(refusals.kind_and_name("Job", job)))
    if problem := of_job.refusal(current, await controller(api, of_job.ADAPTER, current)):
        raise RefusedError.of(problem)
    return current


def seconds_until_counted(job: Json, now: datetime) -> float:
    """Return the seconds until the ledger has counted the last pods of a failed Job.

    The pods are deleted with the Job. Pods that were not counted by then would be missing from the account.
    """
    ended = terminal.ended_at(job)
    if ended is None or names.PROFILE not in (job["metadata"].get("labels") or {}):
        return 0.0
    since = seconds(ended)
    return 0.0 if since is None else min(max(0.0, COUNTED_WITHIN - (now.timestamp() - since)), COUNTED_WITHIN)


async def _replace_job(api: Api, job: Json, by: str, when: str, *, dry_run: bool = False) -> Json | None:
    """Replace a failed Job by a new one of the same name, and return it as `resume`; raise as `rerun` does."""
    metadata = job["metadata"]
    name_ = f"Job {metadata['namespace']}/{metadata['name']}"
    placeholder_name = of_job.placeholder_name(metadata["name"], metadata["uid"])
    existing = await api.find(batch.JOB.path(metadata["namespace"], placeholder_name))
    if existing is not None and of_job.is_placeholder(existing):
        return None if dry_run else await resume(api, existing)
    await asyncio.sleep(0.0 if dry_run else seconds_until_counted(job, utc_now()))
    job = await _current_job(api, job)
    if kueue.is_queued(metadata):
        job = kueue.before_kueue(job, await workload_of(api, job))
    counted = await _find_account(api, _account_path(metadata["namespace"], metadata["name"], metadata["uid"])) or {}
    planned = of_job.placeholder_for(job, by, when, counted.get("status") or {})
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
            of_quota = found is None and error.status == HTTPStatus.CONFLICT  # it may be free soon
            if of_quota or error.status not in FINAL:
                raise
            what = f"{name_} would not be accepted if it were created now: {brief(error)}"
            raise RefusedError(what, "nothing was changed: remove the cause, and request the retry again") from None
        placeholder = found  # another user has requested the same retry
    return None if dry_run else await resume(api, placeholder)


async def resume(api: Api, placeholder: Json) -> Json | None:
    """Run the remaining steps of a placeholder's retry; return the Job that runs again. Raise as `rerun` does.

    None if that is deleted, or if another user has completed the retry.
    """
    job: Json | None = None
    state: of_job.RetryState | None = readable_state(placeholder)
    for stage, after in pairwise((*STEPS, None)):
        if state is None:
            break
        if state.stage == stage:
            for step in STEPS[stage]:
                job = await step(api, placeholder, state) or job
            state = None if after is None else await _write_stage(api, placeholder, after)
    return job


def readable_state(placeholder: Json) -> of_job.RetryState:
    """Return the retry state of a placeholder; raise StuckError if it is malformed."""
    try:
        return of_job.state_of(placeholder)
    except ValueError as error:
        name = f"{placeholder['metadata']['namespace']}/{placeholder['metadata']['name']}"
        what = f"Job {name} is a placeholder, and its annotation {names.SUCCESSOR} cannot be read: {error}"
        raise StuckError(what, "create the failed Job again, and delete this one") from None


async def _check_before_deletion(api: Api, placeholder: Json, state: of_job.RetryState) -> None:
    """Check that the failed Job still exists unchanged; raise RefusedError or StuckError if not, and as `Api` does."""
    namespace = placeholder["metadata"]["namespace"]
    job = await api.find(batch.JOB.path(namespace, state.name))
    if job is None:
        placeholder_name = f"{namespace}/{placeholder['metadata']['name']}"
        what = f"Job {namespace}/{state.name} was deleted by another user"
        raise StuckError(what, f"create it again: Job {placeholder_name} has its manifest")
    if job["metadata"]["uid"] != state.uid or not terminal.has_failed(job):
        await _delete_placeholder(api, placeholder, state)
        again = of_job.is_successor(job, state.uid)
        what = "runs again already, as another user requested" if again else "has changed since the request"
        raise RefusedError(
            f"Job {namespace}/{state.name} {what}",
            "nothing was changed: look at it, and request the retry again if needed",
        )


async def _wait_until_kept(api: Api, placeholder: Json, state: of_job.RetryState) -> None:
    """Wait until the account of the failed Job, if it has one, is not deleted together with it.

    The ledger alone writes accounts: it makes the placeholder one of the owners. Raise StuckError, and as `Api` does.
    """
    metadata = placeholder["metadata"]
    path = _account_path(metadata["namespace"], state.name, state.uid)
    await _wait_for(api, path, lambda found: found is None or metadata["uid"] in account.owners_of(found))


async def _wait_until_continued(api: Api, placeholder: Json, state: of_job.RetryState) -> None:
    """Wait until the successor has an account that continues the one of the failed Job, if that has one.

    Raise StuckError, and as `Api` does.
    """
    namespace = placeholder["metadata"]["namespace"]
    job = await api.find(batch.JOB.path(namespace, state.name))
    if job is None or of_job.is_released(job, state.uid) or not of_job.is_successor(job, state.uid):
        return
    if await _find_account(api, _account_path(namespace, state.name, state.uid)) is not None:
        path = _account_path(namespace, state.name, job["metadata"]["uid"])
        await _wait_for(api, path, lambda found: found is not None)


async def _wait_for(api: Api, path: str, is_done: Callable[[Json | None], bool]) -> None:
    """Wait until an Account is as it has to be; raise StuckError if the ledger does not write it, and as `Api` does."""
    try:
        async with asyncio.timeout(ACCOUNT_WITHIN) as within:
            while not is_done(await _find_account(api, path)):  # noqa: ASYNC110 - the API is polled
                await asyncio.sleep(POLL_INTERVAL)
    except TimeoutError:
        if not within.expired():
            raise
        name = path.rpartition("/")[2]
        what = f"the ledger does not continue the account {name}: no replica leads, or it may not write here"
        raise StuckError(what, "see retry-policy doctor, then request the retry again to continue") from None


async def _find_account(api: Api, path: str) -> Json | None:
    """Return an Account; None if it does not exist, or if the user may not read it: then nobody can wait for it."""
    try:
        return await api.find(path)
    except ApiError as error:
        if error.status != HTTPStatus.FORBIDDEN:
            raise
        return None


def _account_path(namespace: str, name: str, uid: str) -> str:
    return account.path_of(batch.JOB, {"metadata": {"namespace": namespace, "name": name, "uid": uid}})


async def _write_stage(api: Api, placeholder: Json, stage: of_job.Stage) -> of_job.RetryState | None:
    """Write the stage of a retry; return the state that is stored then, or None if another user has completed it.

    Raise StuckError, and as `Api` does.
    """
    path = batch.JOB.path_to(placeholder)
    try:
        found: Json | None = await api.patch(path, of_job.stage_patch(placeholder, stage))
    except ApiError as error:
        if error.status not in {HTTPStatus.NOT_FOUND, *CHANGED}:
            raise
        found = await api.find(path)  # another user is running the same retry
        if found is not None and readable_state(found).stage == readable_state(placeholder).stage:
            raise  # or none is, and the stage was refused
    if found is None:
        return None
    placeholder.update(found)
    return readable_state(placeholder)


async def _create_successor(api: Api, placeholder: Json, state: of_job.RetryState) -> None:
    """Delete the failed Job, and create the successor; raise StuckError, and as `Api` does."""
    namespace = placeholder["metadata"]["namespace"]
    jobs, path = batch.JOB.path(namespace), batch.JOB.path(namespace, state.name)
    keeper = f"{namespace}/{placeholder['metadata']['name']}"
    remedy = f"request the retry again to continue: Job {keeper} has its manifest"
    try:
        async with asyncio.timeout(DELETED_WITHIN) as within:
            while (there := await api.find(path)) is not None and there["metadata"]["uid"] == state.uid:
                if not there["metadata"].get("deletionTimestamp"):
                    await _delete(api, path, state.uid)
                else:
                    await asyncio.sleep(POLL_INTERVAL)
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


async def _release_successor(api: Api, placeholder: Json, state: of_job.RetryState) -> Json | None:
    """Write into the successor's status what has succeeded already, release it, and return it; None if it is gone.

    Raise StuckError, and as `Api` does.
    """
    namespace = placeholder["metadata"]["namespace"]
    path = batch.JOB.path(namespace, state.name)
    job = await api.find(path)
    if job is None or not of_job.is_successor(job, state.uid):
        return None  # it has run, and was deleted since
    try:
        if not of_job.is_released(job, state.uid):
            if done := of_job.done_patch(state.done):
                await api.patch(f"{path}/status", [of_job.unreleased_check(state), *done])
            await api.patch(path, of_job.release(state))
    except ApiError as error:
        now = await api.find(path)
        if now is not None and not of_job.is_released(now, state.uid):
            what = f"Job {namespace}/{state.name} exists again, suspended, and cannot be resumed"
            raise StuckError(f"{what}: {brief(error)}", "request the retry again to continue") from None
    return job


async def _delete_placeholder(api: Api, placeholder: Json, _: of_job.RetryState) -> None:
    await _delete(api, batch.JOB.path_to(placeholder), placeholder["metadata"]["uid"])


# The steps of each stage of a Job's retry, after which the next stage is written. Each step may be repeated, and writes
# nothing if it has been done.
STEPS: Final[dict[of_job.Stage, tuple[Callable[[Api, Json, of_job.RetryState], Awaitable[Json | None]], ...]]] = {
    "Stored": (_check_before_deletion, _wait_until_kept),
    "Deleting": (_create_successor,),
    "Created": (_wait_until_continued, _release_successor, _delete_placeholder),
}
need_rows(STEPS, get_args(of_job.Stage), f"{__name__}: steps and stages")


async def _delete(api: Api, path: str, uid: str, *, after: bool = False) -> None:
    """Delete an object, or do nothing if it does not exist; `after` the objects that it owns. Raise as `Api` does."""
    try:
        await api.delete(path, uid, after=after)
    except ApiError as error:
        if error.status not in {HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT}:
            raise


async def forget(api: Api, kind: KindSpec, root: Json) -> None:
    """Remove the request and the mark from an object, unless another request was accepted. Raise as `Api` does."""
    try:
        if operations := requests.forget(root):
            await api.patch(kind.path_to(root), operations)
    except ApiError as error:
        if error.status not in {HTTPStatus.NOT_FOUND, HTTPStatus.UNPROCESSABLE_ENTITY}:
            raise


@dataclass(frozen=True, slots=True)
class InPlaceRerun:
    """The retry of an object in place. `before`: the object at the request; `by`: the user who requested it."""

    api: Api
    adapter: Adapter
    in_place: InPlace
    path: str
    before: Workload
    by: str

    async def run(self, *, dry_run: bool) -> None:
        """Run the steps, again if the object changes in between; raise as `rerun` does."""
        if dry_run:
            self.check(await self.read())
            return
        first: Workload | None = None
        is_resumed = False
        for number in range(TRIES):
            now = await self.read()
            if first is not None and self.in_place.has_begun(now, first):
                await forget(self.api, self.adapter.kind, now.root)  # another user has requested the same retry
                return
            if first is not None:
                is_recorded = record.is_last(now.root, self.adapter.run_id(first))
                now = dataclasses.replace(now, is_recorded=is_recorded)
            if is_resumed and self.in_place.is_stopped(now):
                raise RefusedError(f"{self.name} was cancelled after the request", "request the retry again")
            first = first or now
            stored = await self.write(now, is_ended=now is first or not self.in_place.is_reset(now))
            if stored is None:
                continue
            is_resumed = True
            if not self.in_place.watches_controller or await self._is_run_by_controller(first):
                await forget(self.api, self.adapter.kind, stored)
                return
            await asyncio.sleep(POLL_INTERVAL * 2**number)  # until its cache is up to date
        raise StuckError(f"{self.name} was changed or ended by others each time", "request the retry again to continue")

    @property
    def name(self) -> str:
        """The object's kind, namespace and name, for messages."""
        return refusals.kind_and_name(self.adapter.kind.kind, self.before.root)

    async def read(self) -> Workload:
        """Return the current state of the object; raise RefusedError if it does not exist, and as `Api` does."""
        # Children first, so that they include none that the controller creates after the state of the object.
        children = await children_of(self.api, self.adapter, self.before.root)
        found = await self.api.find(self.path)
        if found is None:
            raise RefusedError.of(refusals.is_gone(self.name))
        return dataclasses.replace(self.before, root=found, run=found, children=children)

    async def write(self, now: Workload, *, is_ended: bool) -> Json | None:
        """Reset the object if it has ended (`is_ended`), and resume it; return it as stored, or None on a conflict.

        Raise RefusedError, StuckError, and as `Api` does.
        """
        try:
            stored = await self.reset(now) if is_ended else now.root
            if operations := self.in_place.resume(stored):
                await self.api.patch(self.path, operations)
        except ApiError as error:
            if error.status not in CHANGED:
                raise
            return None
        return stored

    def check(self, now: Workload) -> None:
        """Raise RefusedError if the object cannot run again."""
        if problem := self.adapter.refusal(now):
            raise RefusedError.of(problem)

    async def reset(self, now: Workload) -> Json:
        """Remove the end from the object's status, record the retry, delete children; return the object as stored.

        Raise RefusedError, StuckError, and as `Api` does.
        """
        self.check(now)
        steps, stored = self.in_place.steps(now, self.by), now.root
        if steps.record:
            stored = await self.api.patch(self.path, steps.record)
        await _delete_all(self.api, self.adapter, steps.deleted)
        return await self.api.replace(f"{self.path}{self.in_place.status}", steps.again(stored))

    async def _is_run_by_controller(self, first: Workload) -> bool:
        """Return True if the object's controller runs it; False if the controller ends it again from an old cache.

        An object with other children than `first` counts as run, however it has ended.
        """
        now: Workload | None = None
        try:
            async with asyncio.timeout(RUN_WITHIN) as within:
                while (now := await self._read_children_last()) is not None:
                    if self.in_place.has_begun(now, first):
                        return True
                    if not self.in_place.is_reset(now):
                        break
                    await asyncio.sleep(POLL_INTERVAL)
        except TimeoutError:
            if not within.expired():
                raise
            return True  # the controller has not ended it, and will run it once the controller is available again
        return now is None or bool(terminal.has_ended_well(now.root))

    async def _read_children_last(self) -> Workload | None:
        """Return the current state of the object; None if it does not exist. Raise as `Api` does.

        The children are read after the object: an object that has ended gets no more children.
        """
        found = await self.api.find(self.path)
        if found is None:
            return None
        children = await children_of(self.api, self.adapter, found)
        return dataclasses.replace(self.before, root=found, run=found, children=children)


async def _delete_all(api: Api, adapter: Adapter, children: tuple[Json, ...]) -> None:
    """Delete children, and wait until they no longer exist; raise StuckError if a finalizer holds one.

    Raise as `Api` does.
    """
    rows = {} if adapter.children is None else {kind.kind: kind for kind in adapter.children.kinds}
    paths = {rows[child["kind"]].path_to(child): child["metadata"]["uid"] for child in children}
    for path, uid in paths.items():
        await _delete(api, path, uid, after=True)  # a new TaskRun of that name would use its pod
    try:
        async with asyncio.timeout(DELETED_WITHIN) as within:
            for path, uid in paths.items():
                while (there := await api.find(path)) is not None and there["metadata"]["uid"] == uid:  # noqa: ASYNC110
                    await asyncio.sleep(POLL_INTERVAL)
    except TimeoutError:
        if not within.expired():
            raise
        held = ", ".join(child["metadata"]["name"] for child in children)
        raise StuckError(
            f"a finalizer holds some of {held}, which are being deleted", "request the retry again to continue"
        ) from None
