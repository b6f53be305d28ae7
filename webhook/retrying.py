"""What `retry-policy retry` does: finds what is to run again, and has it done with the rights of who asks."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from webhook.patch import at
from webhook.policy.parse import duration
from webhook.problem import Json
from webhook.requested import job as of_job
from webhook.requested import job_set as of_job_set
from webhook.server import retrying
from webhook.server.api import Api
from webhook.server.retrying import RefusedError, StuckError
from webhook.workloads import Workload, batch
from webhook.workloads.job_set import JOB_SET

ROWS: Final = {name: row for row in (batch.JOB, JOB_SET, batch.CRON_JOB) for name in (row.kind.lower(), row.resource)}
KINDS: Final = "job, jobset, cronjob"


@dataclass(frozen=True, slots=True)
class Target:
    """What the command line names; where `name` is empty all of a kind in a namespace that have failed, and are chosen.

    `failed_since`: within so many seconds until now.
    """

    namespace: str
    row: Workload
    name: str = ""
    selector: str | None = None
    failed_since: int | None = None


@dataclass(slots=True)
class Outcome:
    """What became of it: what runs again, a line for each, and why what was refused was."""

    done: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


def target_of(text: str, selector: str | None, failed_since: str | None) -> Target:
    """Read NAMESPACE/KIND/NAME, or NAMESPACE/KIND, and a duration; raise ValueError with a sentence."""
    within = None if failed_since is None else duration(failed_since)
    if failed_since is not None and within is None:
        raise ValueError(f"--failed-since {failed_since!r} is no duration; write 90s, 1h30m or 24h")
    namespace, _, rest = text.partition("/")
    kind, _, name = rest.partition("/")
    row = ROWS.get(kind.lower())
    if not namespace or row is None or "/" in name:
        what = f"no {kind!r} can run again" if namespace and kind and row is None else f"{text!r} names nothing"
        raise ValueError(f"{what}; write NAMESPACE/KIND/NAME, the kind one of {KINDS}")
    if not name and selector is None and failed_since is None:
        raise ValueError(f"{text!r} names no {row.kind}; add /NAME, or choose with -l or --failed-since")
    if name and (selector is not None or failed_since is not None):
        raise ValueError("a name and -l or --failed-since exclude each other; leave one out")
    return Target(namespace, row, name, selector, within)


async def retry(kubeconfig: str, target: Target, agreed: Callable[[list[str]], bool], *, dry_run: bool) -> Outcome:
    """Have it run again, or with `dry_run` only find out whether it could; raise what `Api` raises.

    `agreed` is shown what would be done, line by line, and says whether it is to be.
    """
    outcome = Outcome()
    async with await Api.connect(kubeconfig) as api:
        planned = [(root, promise(root)) async for root in chosen(api, target, outcome.refused)]
        if not planned or not (dry_run or agreed([line for _, line in planned])):
            return outcome
        by, when = await retrying.who_asks(api), datetime.now(UTC).isoformat(timespec="seconds")
        for root, line in planned:
            try:
                await carry_out(api, root, by, when, dry_run=dry_run)
                outcome.done.append(line)
            except (RefusedError, StuckError) as error:
                outcome.refused.append(str(error))
    return outcome


async def chosen(api: Api, target: Target, refused: list[str]) -> AsyncIterator[Json]:
    """Yield what can run again, a kept Job where that was begun; add to `refused` why the rest cannot."""
    kept = [] if target.row is JOB_SET else await retrying.kept_jobs(api, target.namespace)
    begun = {of_job.notes_of(one).name: one for one in kept if of_job.is_kept(one)}
    if target.row is batch.JOB and target.name in begun:
        yield begun[target.name]
        return
    async for root in candidates(api, target, refused):
        job = await retrying.last_job(api, root) if target.row is batch.CRON_JOB else root
        name = f"{target.row.kind} {target.namespace}/{root['metadata']['name']}"
        if job is None:
            why: str | None = f"{name} has no Job that could run again"
        elif target.row is JOB_SET:
            why = of_job_set.refusal(job)
        else:
            why = of_job.refusal(job, root if target.row is batch.CRON_JOB else None)
        if job is not None and why is None:
            yield begun.get(job["metadata"]["name"], job)
        elif target.name or (job is not None and has_failed(job, target.failed_since)):
            refused.append(str(why))


async def candidates(api: Api, target: Target, refused: list[str]) -> AsyncIterator[Json]:
    """Yield the object that is named, or those that are chosen, and have failed where they can."""
    path = retrying.path_of(target.row, target.namespace, target.name)
    if target.name:
        one = await retrying.find(api, path)
        if one is None:
            refused.append(f"there is no {target.row.kind} {target.namespace}/{target.name}")
        else:
            yield one
        return
    query = {} if target.selector is None else {"labelSelector": target.selector}
    async for page in api.pages(path, query, "application/json"):
        for one in page["items"]:
            if target.row is batch.CRON_JOB or has_failed(one, target.failed_since):
                yield one


async def carry_out(api: Api, root: Json, by: str, when: str, *, dry_run: bool) -> None:
    """Have one object run again; raise RefusedError, StuckError, and what `Api` raises."""
    row = JOB_SET if is_job_set(root) else batch.JOB
    namespace, name = root["metadata"]["namespace"], root["metadata"]["name"]
    missing = await retrying.missing_rights(api, namespace, retrying.rights_for(row, root))
    if missing:
        lacking = ", ".join(str(right) for right in missing)
        raise RefusedError(f"{row.kind} {namespace}/{name} stays as it is: you may not {lacking}; ask for the right")
    if row is JOB_SET:
        await retrying.retry_job_set(api, root, by, when, dry_run=dry_run)
    elif not of_job.is_kept(root):
        await retrying.retry_job(api, root, by, when, dry_run=dry_run)
    elif not dry_run:
        await retrying.go_on(api, root)


def is_job_set(root: Json) -> bool:
    """Tell a JobSet from a Job: of a list's items the API does not say the kind."""
    return "replicatedJobs" in root["spec"]


def has_failed(root: Json, within: int | None) -> bool:
    """Tell whether a Job or JobSet has failed, and within a time until now."""
    for one in at(root, ("status", "conditions")) or ():
        if one.get("type") == "Failed" and one.get("status") == "True":
            ago = datetime.now(UTC) - datetime.fromisoformat(one["lastTransitionTime"])
            return within is None or ago.total_seconds() <= within
    return False


def promise(root: Json) -> str:
    """Say what will run again."""
    namespace, name = root["metadata"]["namespace"], root["metadata"]["name"]
    if is_job_set(root):
        return f"JobSet {namespace}/{name}: all of its Jobs run again"
    if of_job.is_kept(root):
        return f"Job {namespace}/{of_job.notes_of(root).name}: goes on with the retry that was begun"
    done, completions = of_job.done_of(root), root["spec"].get("completions")
    if done.completed_indexes:
        return f"Job {namespace}/{name}: {completions - done.succeeded} of {completions} indexes run again"
    if done.succeeded:
        return f"Job {namespace}/{name}: runs again; {done.succeeded} of {completions} pods have succeeded already"
    return f"Job {namespace}/{name}: runs again"
