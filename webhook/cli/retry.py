"""retry-policy retry: finds what is to run again, and reruns it with the rights of the user."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

import click

from webhook.cli.console import PROBLEMS, UNUSABLE, kubeconfig_or_default, printable
from webhook.kinds import KindSpec, batch, tekton
from webhook.kinds.job_set import JOB_SET
from webhook.kube import terminal
from webhook.kube.client import UNREACHABLE, Api, ApiError
from webhook.objects.problem import Json, Problem
from webhook.policy.parse import duration
from webhook.retry import executor, pipeline_runs
from webhook.retry.executor import RUN_AGAIN, RefusedError, StuckError
from webhook.retry.kinds import job as of_job
from webhook.retry.kinds import job_set as of_job_set
from webhook.retry.kinds import pipeline_run as of_pipeline_run
from webhook.rules.jobs.schema import SUBDOMAIN

ROWS: Final = {name: row for row in RUN_AGAIN for name in (row.kind.lower(), row.resource)}
KINDS: Final = "job, jobset, cronjob, pipelinerun"


@click.command(options_metavar="[OPTIONS]")
@click.argument("target", metavar="NAMESPACE/KIND[/NAME]")
@click.option("-l", "selector", metavar="SELECTOR", help="All that have failed of those with these labels.")
@click.option("--failed-since", metavar="DURATION", help="All that have failed within 90s, 1h30m, 24h until now.")
@click.option(
    "--dry-run", is_flag=True, help="Only say what would run again; the API server is asked whether it could."
)
@click.option("--keep-finally", is_flag=True, help="PipelineRun: what of its finally tasks has succeeded stays.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--kubeconfig", help="Default: KUBECONFIG, else ~/.kube/config.")
def retry(target: str, selector: str | None, failed_since: str | None, kubeconfig: str | None, **flags: bool) -> None:
    """Have what has failed run again, what has succeeded not: Job, CronJob (its last Job), JobSet, PipelineRun.

    Only what says that it may run twice: annotation retry-policy.dev/retryable is "true". Exit 0 if all runs again, 1
    if something was refused, 2 if the cluster cannot be asked.
    """
    try:
        wanted = target_of(target, selector, failed_since, keep_finally=flags["keep_finally"])
    except ValueError as error:
        raise click.UsageError(str(error)) from None

    def agreed(lines: list[str]) -> bool:
        if flags["yes"]:
            return True
        for line in lines:
            click.echo(printable(line))
        return click.confirm("Go on?")

    file = kubeconfig_or_default(kubeconfig)
    conclude(file, rerun(file, wanted, agreed, dry_run=flags["dry_run"]), " (dry run)" * flags["dry_run"])


@dataclass(frozen=True, slots=True)
class Target:
    """What the command line names; where `name` is empty all of a kind in a namespace that have failed, and are chosen.

    `failed_since`: within so many seconds until now. `keep_finally`: whether tasks of `finally` that have succeeded do
    not run again.
    """

    namespace: str
    row: KindSpec
    name: str = ""
    selector: str | None = None
    failed_since: int | None = None
    keep_finally: bool = False


@dataclass(frozen=True, slots=True)
class Planned:
    """What can run again, and a line that says what of it will; of a Job whose retry has begun, its placeholder."""

    row: KindSpec
    root: Json
    promise: str
    keep_finally: bool = False


@dataclass(slots=True)
class Outcome:
    """What was done, a line for each; what was refused, and why; what the API server warned of."""

    done: list[str] = field(default_factory=list)
    refused: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def target_of(text: str, selector: str | None, failed_since: str | None, *, keep_finally: bool = False) -> Target:
    """Read NAMESPACE/KIND/NAME, or NAMESPACE/KIND, and a duration; raise ValueError with a sentence."""
    within = None if failed_since is None else duration(failed_since)
    if failed_since is not None and within is None:
        raise ValueError(f"--failed-since {failed_since!r} is no duration; write 90s, 1h30m or 24h")
    namespace, _, rest = text.partition("/")
    kind, _, name = rest.partition("/")
    row = ROWS.get(kind.lower())
    if row is None or not SUBDOMAIN.fullmatch(namespace) or (name and not SUBDOMAIN.fullmatch(name)):
        what = f"no {kind!r} can run again" if namespace and kind and row is None else f"{text!r} names nothing"
        raise ValueError(f"{what}; write NAMESPACE/KIND/NAME, the kind one of {KINDS}")
    if not name and selector is None and failed_since is None:
        raise ValueError(f"{text!r} names no {row.kind}; add /NAME, or choose with -l or --failed-since")
    if name and (selector is not None or failed_since is not None):
        raise ValueError("a name and -l or --failed-since exclude each other; leave one out")
    if keep_finally and row is not tekton.PIPELINE_RUN:
        raise ValueError(f"--keep-finally is of PipelineRuns, and {text!r} is none; leave it out")
    return Target(namespace, row, name, selector, within, keep_finally)


async def rerun(kubeconfig: str, target: Target, agreed: Callable[[list[str]], bool], *, dry_run: bool) -> Outcome:
    """Have it run again, or with `dry_run` only find out whether it could; raise what `Api` raises.

    `agreed` is shown what would be done, line by line, and says whether it is to be.
    """
    outcome = Outcome()
    async with await Api.connect(kubeconfig) as api:
        planned = [one async for one in chosen(api, target, outcome.refused)]
        if not planned and not outcome.refused:
            outcome.warnings.append(f"no {target.row.kind} in {target.namespace} that you chose has failed")
        if not planned or not (dry_run or agreed([one.promise for one in planned])):
            return outcome
        by, when = await api.username(), now()
        for one in planned:
            try:
                await carry_out(api, one, by, when, dry_run=dry_run)
                outcome.done.append(one.promise)
            except (RefusedError, StuckError) as error:
                outcome.refused.append(error.problem)
            except (ApiError, *UNREACHABLE) as error:
                answer = (str(error) or repr(error))[: executor.LONGEST_ERROR]
                what = f"{named(one.row, one.root)}: the API server did not do it: {answer}"
                outcome.refused.append(Problem((), what, "ask again to go on"))
    return outcome


async def chosen(api: Api, target: Target, refused: list[Problem]) -> AsyncIterator[Planned]:
    """Yield what can run again, first what has begun to; add to `refused` why the rest cannot."""
    placeholders = (
        await executor.placeholders(api, target.namespace) if target.row in {batch.JOB, batch.CRON_JOB} else []
    )
    begun = {of_job.state_of(one).name: one for one in placeholders if target.row is batch.JOB}
    for name, one in begun.items():
        if target.name in {name, ""}:
            yield planned_job(one)
    if target.name in begun:
        return
    async for root in candidates(api, target, refused):
        if root["metadata"]["name"] in begun:
            continue
        found = await planned_of(api, target, root, placeholders)
        if isinstance(found, Problem):
            refused.append(found)
        elif found is not None:
            yield found


async def planned_of(api: Api, target: Target, root: Json, placeholders: list[Json]) -> Planned | Problem | None:
    """Say what of an object will run again, or why nothing can; None where nobody has asked for it."""
    if target.row is tekton.PIPELINE_RUN:
        return await planned_pipeline_run(api, root, now(), keep_finally=target.keep_finally)
    if target.row is JOB_SET:
        promise = f"{named(JOB_SET, root)}: all of its Jobs run again"
        return of_job_set.refusal(root) or Planned(JOB_SET, root, promise)
    if target.row is batch.JOB:
        return of_job.refusal(root, await executor.cron_job_of(api, root)) or planned_job(root)
    for one in placeholders:
        if of_job.is_for_job_of(one, root):
            return planned_job(one)
    job = await executor.last_job(api, root)
    if not target.name and not (job and has_failed(job, target.failed_since)):
        return None
    if job is None:
        return Problem((), f"{named(batch.CRON_JOB, root)} has no Job that could run again", "wait for the next")
    return of_job.refusal(job, root) or planned_job(job)


async def candidates(api: Api, target: Target, refused: list[Problem]) -> AsyncIterator[Json]:
    """Yield the object that is named, or those that are chosen, and have failed where they can."""
    path = executor.path_of(target.row, target.namespace, target.name)
    if target.name:
        one = await api.find(path)
        if one is None:
            refused.append(await executor.absent(api, target.row, target.namespace, target.name))
        else:
            yield one
        return
    query = {} if target.selector is None else {"labelSelector": target.selector}
    async for one in api.objects(path, query):
        if target.row is batch.CRON_JOB or has_failed(one, target.failed_since):
            yield one


async def carry_out(api: Api, planned: Planned, by: str, when: str, *, dry_run: bool) -> None:
    """Have one object run again; raise RefusedError, StuckError, and what `Api` raises."""
    row, root = planned.row, planned.root
    namespace = root["metadata"]["namespace"]
    missing = await executor.missing_rights(api, namespace, executor.rights_for(row, root))
    if missing:
        lacking = ", ".join(str(right) for right in missing)
        raise RefusedError(f"{named(row, root)} stays as it is: you may not {lacking}", "ask for the right")
    if row is JOB_SET:
        await executor.retry_job_set(api, root, by, when, dry_run=dry_run)
    elif row is tekton.PIPELINE_RUN:
        if not dry_run:  # the plan is all that can be said of it before
            keep_finally = planned.keep_finally
            await pipeline_runs.retry_pipeline_run(api, root, by, when, keep_finally=keep_finally)
    elif not of_job.is_placeholder(root):
        await executor.retry_job(api, root, by, when, dry_run=dry_run)
    elif not dry_run:
        await executor.resume(api, root)


def now() -> str:
    """Return the time, RFC 3339."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def has_failed(root: Json, within: int | None) -> bool:
    """Tell whether a Job, JobSet or PipelineRun has failed, and within so many seconds until now."""
    since = terminal.ended_at(root)
    if not terminal.has_failed(root) or within is None or since is None:
        return terminal.has_failed(root)
    return (datetime.now(UTC) - datetime.fromisoformat(since)).total_seconds() <= within


def named(row: KindSpec, root: Json) -> str:
    """Name an object."""
    return f"{row.kind} {root['metadata']['namespace']}/{root['metadata']['name']}"


def planned_job(job: Json) -> Planned:
    """Say what of a Job will run again; `job` is its placeholder where that has begun."""
    if of_job.is_placeholder(job):
        name = f"Job {job['metadata']['namespace']}/{of_job.state_of(job).name}"
        return Planned(batch.JOB, job, f"{name}: goes on with the retry that was begun")
    name, done, completions = named(batch.JOB, job), of_job.done_of(job), job["spec"].get("completions")
    if done.completed_indexes:
        return Planned(batch.JOB, job, f"{name}: {completions - done.succeeded} of {completions} indexes run again")
    if done.succeeded:
        what = f"runs again; {done.succeeded} of {completions} pods have succeeded already"
        return Planned(batch.JOB, job, f"{name}: {what}")
    return Planned(batch.JOB, job, f"{name}: runs again")


async def planned_pipeline_run(api: Api, run: Json, when: str, *, keep_finally: bool) -> Planned | Problem:
    """Say which tasks of a PipelineRun will run again, or why none can."""
    children = await pipeline_runs.children_of(api, run)
    why = of_pipeline_run.refusal(run, children, when, keep_finally=keep_finally)
    if why is not None:
        return why
    again = sorted(of_pipeline_run.plan(run, children, keep_finally=keep_finally).again)
    what = f"{', '.join(again)} and what has not run yet" if again else "runs from its beginning"
    line = f"{named(tekton.PIPELINE_RUN, run)}: {what}" + (" run again" if again else "")
    return Planned(tekton.PIPELINE_RUN, run, line, keep_finally=keep_finally)


def conclude(file: str, work: Coroutine[None, None, Outcome], added: str = "") -> None:
    """Run `work` against the cluster of a kubeconfig, print its outcome, and exit."""
    try:
        outcome = asyncio.run(work)
    except ApiError as error:
        click.echo(printable(str(error)), err=True)
        sys.exit(UNUSABLE)
    except UNREACHABLE as error:
        what = f"the cluster of {file} cannot be asked: {error}; name another with --kubeconfig"
        click.echo(printable(what), err=True)
        sys.exit(UNUSABLE)
    for line in outcome.done:
        click.echo(printable(line + added))
    for line in [*(f"warning: {one}" for one in outcome.warnings), *map(str, outcome.refused)]:
        click.echo(printable(line), err=True)
    if not outcome.done and not outcome.refused:
        click.echo("nothing was done", err=True)
    sys.exit(PROBLEMS if outcome.refused else 0)
