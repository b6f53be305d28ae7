"""Carries requested retries out, step by step: wherever one stops, anybody who may can go on with it."""

import asyncio
from datetime import UTC, datetime
from http import HTTPStatus
from operator import itemgetter
from typing import Final, NamedTuple, Self

from webhook.kinds import KindSpec, batch, tekton
from webhook.kinds.job_set import JOB_SET
from webhook.kinds.kind_spec import controller_of
from webhook.kube import names, terminal
from webhook.kube.client import CHANGED, METADATA_ONLY_LIST, Api, ApiError
from webhook.objects.problem import Json, Problem
from webhook.retry import requests
from webhook.retry.kinds import job as of_job
from webhook.retry.kinds import job_set as of_job_set
from webhook.retry.kinds import refusals
from webhook.rules.jobs.schema import SUBDOMAIN

FINAL: Final = {*map(HTTPStatus, (400, 403, 404, 409, 413, 422))}  # asked again it would be the same
TRIES: Final = 5
COUNTED_WITHIN: Final = 4.0  # seconds from the end of a Job until the ledger has counted all of its pods
GONE_WITHIN: Final = 60.0  # seconds that finalizers may take
LOOK_AGAIN: Final = 0.1
LONGEST_ERROR: Final = 600  # characters of an answer of the API server in a problem
RUN_AGAIN: Final = (batch.JOB, JOB_SET, batch.CRON_JOB, tekton.PIPELINE_RUN)
CHILDREN: Final = (tekton.TASK_RUN, tekton.CUSTOM_RUN)  # of a PipelineRun


class Right(NamedTuple):
    """What a user must be allowed to do."""

    verb: str
    group: str
    resource: str
    subresource: str = ""

    def __str__(self) -> str:
        return f"{self.verb} {'/'.join(filter(None, (self.resource, self.subresource)))}"


class ProblemError(Exception):
    """An error with a problem: what is wrong, and what would help."""

    def __init__(self, what: str, remedy: str) -> None:
        self.problem = Problem((), what, remedy)
        super().__init__(str(self.problem))

    @classmethod
    def of(cls, problem: Problem) -> Self:
        """Return the error for a problem."""
        return cls(problem.what, problem.remedy)


class RefusedError(ProblemError):
    """A retry that is not possible; nothing has changed."""


class StuckError(ProblemError):
    """A retry that has begun and cannot continue now; the problem says where the manifest is."""


def brief(error: ApiError) -> str:
    """Return what the API server answered, short enough for the rest of a problem to be printed after it."""
    return str(error)[:LONGEST_ERROR]


def path_of(row: KindSpec, namespace: str, name: str = "") -> str:
    """Return the path of an object, or without a name that of all in a namespace.

    Raise ValueError for what is no name.
    """
    if not all(SUBDOMAIN.fullmatch(one) for one in (namespace, name) if one):
        raise ValueError(f"{namespace}/{name} is no name, and may be a path")
    path = f"/apis/{row.group}/{row.versions[0]}/namespaces/{namespace}/{row.resource}"
    return f"{path}/{name}" if name else path


def rights_for(row: KindSpec, root: Json) -> list[Right]:
    """Return what has to be allowed to who has this object run again; of a CronJob, whichever Job is its last."""
    if row not in {batch.JOB, batch.CRON_JOB}:
        found = [Right("patch", row.group, row.resource), Right("update", row.group, row.resource, "status")]
        of_children = CHILDREN if row is tekton.PIPELINE_RUN else ()
        return found + [Right("delete", child.group, child.resource) for child in of_children]
    job = batch.JOB
    found = [Right(verb, job.group, job.resource) for verb in ("create", "patch", "delete")]
    if row is batch.CRON_JOB or of_job.done_already(done_of(root)):
        found.append(Right("patch", job.group, job.resource, "status"))
    return found


def done_of(job: Json) -> of_job.Done:
    """Return what need not run again of a Job, or of the Job that a placeholder is for."""
    return of_job.state_of(job).done if of_job.is_placeholder(job) else of_job.done_of(job)


async def missing_rights(api: Api, namespace: str, rights: list[Right], *, user: Json | None = None) -> list[Right]:
    """Return those of these rights that a user, as a SubjectAccessReview names him, has not in a namespace.

    Without one that is the user of this connection.
    """
    kind = "SelfSubjectAccessReview" if user is None else "SubjectAccessReview"
    found = []
    for right in rights:
        attributes = {**right._asdict(), "namespace": namespace}
        spec = {**(user or {}), "resourceAttributes": attributes}
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
        answer = await api.create(f"/apis/authorization.k8s.io/v1/{kind.lower()}s", review)
        if not answer["status"].get("allowed"):
            found.append(right)
    return found


async def absent(api: Api, row: KindSpec, namespace: str, name: str) -> Problem:
    """Return why an object is not found: there is none of this name, or its kind is not installed."""
    if await api.find(path_of(row, namespace)) is None:
        return Problem((), f"there are no {row.resource} in this cluster", f"install {row.group}")
    return Problem(
        (), f"there is no {row.kind} {namespace}/{name}", f"list them: kubectl get -n {namespace} {row.resource}"
    )


async def last_job(api: Api, cron_job: Json) -> Json | None:
    """Return the newest Job of a CronJob, None if there is none."""
    metadata = cron_job["metadata"]
    jobs = path_of(batch.JOB, metadata["namespace"])
    mine = [
        one["metadata"]
        async for one in api.objects(jobs, {}, METADATA_ONLY_LIST)
        if any(owner["uid"] == metadata["uid"] for owner in one["metadata"].get("ownerReferences") or ())
    ]
    last = max(mine, key=itemgetter("creationTimestamp"), default=None)
    found = None if last is None else await api.find(f"{jobs}/{last['name']}")
    return found if last is not None and found is not None and found["metadata"]["uid"] == last["uid"] else None


async def cron_job_of(api: Api, job: Json) -> Json | None:
    """Return the CronJob that a Job is of, None if it is of none."""
    controller = controller_of(job)
    if controller is None or (controller.group, controller.kind) != (batch.CRON_JOB.group, batch.CRON_JOB.kind):
        return None
    if not SUBDOMAIN.fullmatch(controller.name):
        return None
    return await api.find(path_of(batch.CRON_JOB, job["metadata"]["namespace"], controller.name))


async def placeholders(api: Api, namespace: str) -> list[Json]:
    """Return the placeholders of a namespace: of each Job that is being created again one."""
    selector = {"labelSelector": names.RETRY_OF}
    return [one async for one in api.objects(path_of(batch.JOB, namespace), selector) if of_job.is_placeholder(one)]


async def workload_of(api: Api, job: Json) -> Json | None:
    """Return Kueue's Workload of a Job, None if there is none; raise RefusedError where the user may not know."""
    try:
        version = (await api.get("/apis/kueue.x-k8s.io"))["preferredVersion"]["groupVersion"]
        path = f"/apis/{version}/namespaces/{job['metadata']['namespace']}/workloads"
        async for one in api.objects(path, {}, METADATA_ONLY_LIST):
            owners = one["metadata"].get("ownerReferences") or ()
            if any(owner["uid"] == job["metadata"]["uid"] for owner in owners):
                return await api.find(f"{path}/{one['metadata']['name']}")
    except ApiError as error:
        if error.status not in FINAL:
            raise
        if error.status != HTTPStatus.NOT_FOUND:
            what = f"Job {job['metadata']['namespace']}/{job['metadata']['name']} is in a queue"
            what += f", and its Workload, which keeps its manifest, cannot be read: {brief(error)}"
            raise RefusedError(what, "ask for the right, or create it anew") from None
    return None


async def as_it_is_now(api: Api, job: Json) -> Json:
    """Return a Job that can be asked to run again as it is now; raise RefusedError, and what `Api` raises."""
    metadata = job["metadata"]
    current = await api.find(path_of(batch.JOB, metadata["namespace"], metadata["name"]))
    if current is None or current["metadata"]["uid"] != metadata["uid"]:
        raise RefusedError.of(refusals.is_gone(refusals.named("Job", job)))
    if problem := of_job.refusal(current, await cron_job_of(api, current)):
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


async def retry_job(api: Api, job: Json, by: str, when: str, *, dry_run: bool = False) -> None:
    """Create a Job that has failed again, under its name; raise RefusedError, StuckError, and what `Api` raises."""
    metadata = job["metadata"]
    name_ = f"Job {metadata['namespace']}/{metadata['name']}"
    placeholder_name = of_job.placeholder_name(metadata["name"], metadata["uid"])
    begun = await api.find(path_of(batch.JOB, metadata["namespace"], placeholder_name))
    if begun is not None and of_job.is_placeholder(begun):
        if not dry_run:
            await resume(api, begun)
        return
    await asyncio.sleep(0.0 if dry_run else until_counted(job, datetime.now(UTC)))
    job = await as_it_is_now(api, job)
    if batch.is_queued(metadata):
        job = of_job.before_kueue(job, await workload_of(api, job))
    planned = of_job.placeholder_for(job, by, when)
    jobs, name = path_of(batch.JOB, metadata["namespace"]), planned["metadata"]["name"]
    trial = of_job.successor(planned)
    trial["metadata"]["name"] = name
    try:
        accepted = await api.create(jobs, trial, dry_run=True)
        if of_job.is_queued_by_others(accepted, of_job.state_of(planned)):
            raise RefusedError(f"{name_} would be put into a queue, which it was not in", "create it anew")
        placeholder = await api.create(jobs, planned, dry_run=dry_run)
    except ApiError as error:
        found = await api.find(f"{jobs}/{name}") if error.status == HTTPStatus.CONFLICT else None
        if found is None or (found["metadata"].get("labels") or {}).get(names.RETRY_OF) != metadata["uid"]:
            of_quota = found is None and error.status == HTTPStatus.CONFLICT  # which changes all the time
            if of_quota or error.status not in FINAL:
                raise
            what = f"{name_} would not be accepted if it were created now: {brief(error)}"
            raise RefusedError(what, "nothing has changed") from None
        placeholder = found  # somebody else has asked: it is one and the same retry
    if not dry_run:
        await resume(api, placeholder)


async def resume(api: Api, placeholder: Json) -> None:
    """Bring the retry of a placeholder to its end; raise as `retry_job` does."""
    namespace = placeholder["metadata"]["namespace"]
    state: of_job.RetryState | None = readable_state(placeholder)
    if state is not None and state.stage == "Kept":
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
        what = f"Job {name} keeps a manifest, and its annotation {names.SUCCESSOR} cannot be read: {error}"
        raise StuckError(what, "create the Job anew, and delete this one") from None


async def check_before_deletion(api: Api, placeholder: Json, state: of_job.RetryState) -> None:
    """See to it that the Job is still what was asked for; without it there may have been another retry."""
    namespace = placeholder["metadata"]["namespace"]
    job = await api.find(path_of(batch.JOB, namespace, state.name))
    if job is None:
        placeholder_name = f"{namespace}/{placeholder['metadata']['name']}"
        what = f"Job {namespace}/{state.name} has been deleted by somebody else"
        raise StuckError(what, f"{placeholder_name} keeps its manifest")
    if job["metadata"]["uid"] != state.uid or not terminal.has_failed(job):
        await delete_placeholder(api, placeholder)
        again = of_job.is_successor(job, state.uid)
        what = "runs again already, as somebody else has asked" if again else "is not what it was any more"
        raise RefusedError(f"Job {namespace}/{state.name} {what}", "nothing was done")


async def advance(api: Api, placeholder: Json, stage: of_job.Stage) -> of_job.RetryState | None:
    """Write how far it has come; return the state then, None where somebody else has come to the end."""
    path = path_of(batch.JOB, placeholder["metadata"]["namespace"], placeholder["metadata"]["name"])
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
    jobs, path = path_of(batch.JOB, namespace), path_of(batch.JOB, namespace, state.name)
    manifest = f"its manifest is kept in Job {namespace}/{placeholder['metadata']['name']}; ask again to go on"
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
        raise StuckError(f"Job {namespace}/{state.name} is deleted but held by a finalizer", manifest) from None
    if there is None:
        try:
            there = await api.create(jobs, of_job.successor(placeholder))
        except ApiError as error:
            there = await api.find(path) if error.status == HTTPStatus.CONFLICT else None
            if there is None:
                raise StuckError(f"Job {namespace}/{state.name} is not accepted: {brief(error)}", manifest) from None
    if not of_job.is_successor(there, state.uid):
        raise StuckError(f"somebody else has created a Job {namespace}/{state.name} meanwhile", manifest)


async def release_successor(api: Api, namespace: str, state: of_job.RetryState) -> None:
    """Write into the successor what is done, and release it."""
    path = path_of(batch.JOB, namespace, state.name)
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
            what = f"Job {namespace}/{state.name} is there again, suspended, and cannot be released"
            raise StuckError(f"{what}: {brief(error)}", "ask again to go on") from None


async def delete_placeholder(api: Api, placeholder: Json) -> None:
    """Delete a placeholder."""
    metadata = placeholder["metadata"]
    await delete(api, path_of(batch.JOB, metadata["namespace"], metadata["name"]), metadata["uid"])


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
            await api.patch(path_of(row, metadata["namespace"], metadata["name"]), operations)
    except ApiError as error:
        if error.status not in {HTTPStatus.NOT_FOUND, HTTPStatus.UNPROCESSABLE_ENTITY}:
            raise


async def retry_job_set(api: Api, job_set: Json, by: str, when: str, *, dry_run: bool = False) -> None:
    """Have a JobSet that has failed run again; raise RefusedError, and what `Api` raises."""
    metadata = job_set["metadata"]
    path = path_of(JOB_SET, metadata["namespace"], metadata["name"])
    noted = ""
    for _ in range(1 if dry_run else TRIES):
        found = await api.find(path)
        if found is None:
            raise RefusedError.of(refusals.is_gone(refusals.named("JobSet", job_set)))
        if of_job_set.runs_as_asked(found, noted) or noted not in {"", of_job_set.run_of(found)}:
            await forget(api, JOB_SET, found)
            return
        if problem := of_job_set.refusal(found):
            raise RefusedError.of(problem)
        if dry_run:
            return
        noted = of_job_set.run_of(found)
        try:
            if not of_job_set.is_noted(found):
                found = await api.patch(path, of_job_set.noted(found, by, when))
            await api.replace(f"{path}/status", of_job_set.run_again(found))
        except ApiError as error:
            if error.status not in CHANGED:
                raise
            continue  # it has changed meanwhile
        await forget(api, JOB_SET, found)
        return
    raise StuckError(f"JobSet {metadata['namespace']}/{metadata['name']} changes all the time", "ask again")
