"""Explains what the Jobs of a CronJob get, how the last ones ended, and when the next one starts. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from webhook.accounts.words import counted
from webhook.explain import build
from webhook.kube import names
from webhook.objects.columns import Part
from webhook.objects.left_out import RAISING, LeftOut
from webhook.objects.patch import at
from webhook.objects.problem import Json
from webhook.systems.job import spec as batch
from webhook.systems.job.spec import CRON_JOB, job_of_cron_job
from webhook.systems.kind_spec import controller_of

MOST_JOBS: Final = 10  # the newest Jobs, which are listed
OVERLAPS: Final = {
    "Allow": "starts beside those that still run",
    "Forbid": "is left out while one still runs",
    "Replace": "replaces one that still runs",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """One Job of a CronJob.

    `created`: RFC 3339. `state`: as in Explanation. `summary`: what its attempts cost.
    """

    name: str
    created: str
    state: str
    summary: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CronJobExplanation:
    """A CronJob, what each of its Jobs gets, its last Jobs, the oldest first, and what happens next.

    `gets`: the retries of a Job, and what its first failure does. `gets_from`: the object that says so.
    """

    kind: str = CRON_JOB.kind
    namespace: str
    name: str
    schedule: str
    suspended: bool
    gets_from: str
    gets: list[str]
    jobs: list[JobRow] = field(default_factory=list)
    next: list[str] = field(default_factory=list)


def explain(root: Json, jobs: list[Json], accounts: list[Json], left_out: LeftOut = RAISING) -> CronJobExplanation:
    """Explain a CronJob, as the API has it; `jobs`: those that it controls, `accounts`: their Accounts."""
    metadata, spec = root["metadata"], root["spec"]
    newest_last = sorted(jobs, key=_created_at)[-MOST_JOBS:]
    rows = []
    for job in newest_last:
        with left_out.around(batch.JOB.kind, job):
            told, created = build.explain(batch.JOB, job, [job], accounts, left_out), _created_at(job)
            rows.append(JobRow(name=told.name, created=created, state=told.state, summary=told.summary))
    sample = _sample_of(root, newest_last)
    zone = f" ({spec['timeZone']})" if spec.get("timeZone") else ""
    return CronJobExplanation(
        namespace=metadata.get("namespace") or "",
        name=metadata["name"],
        schedule=f"{spec.get('schedule')}{zone}",
        suspended=bool(spec.get("suspend")),
        gets_from="its template" if sample is None else f"its last Job, {sample['metadata']['name']}",
        gets=[*_what_jobs_get(sample or job_of_cron_job(root))],
        jobs=rows,
        next=[*_next_steps(root, newest_last)],
    )


def _created_at(job: Json) -> str:
    return str(job["metadata"].get("creationTimestamp") or "")


def is_controlled_by(root: Json, owner: Json) -> bool:
    """Return True if `owner` is the controller of an object."""
    controller = controller_of(root)
    return controller is not None and controller.uid == owner["metadata"].get("uid")


def _sample_of(root: Json, jobs: list[Json]) -> Json | None:
    """Return the last Job if admission has edited it but not the template, as before the opt-in; else None."""
    last = jobs[-1] if jobs else None
    return last if last is not None and _is_changed(last) and not _is_changed(root) else None


def _is_changed(root: Json) -> bool:
    """Return True if an object has the annotation in which admission records what it injected."""
    return at(root, ("metadata", "annotations", names.POLICY)) is not None


def _what_jobs_get(job: Json) -> Iterator[str]:
    metadata = {"uid": "", **job["metadata"]}
    new = {"apiVersion": batch.JOB.api_version, "kind": batch.JOB.kind, "metadata": metadata, "spec": job["spec"]}
    of = " for each index" if batch.has_index_budgets(job["spec"]) else ""
    yield f"{counted(batch.retry_budget(job['spec']), 'retry')}{of}"
    yield from build.explain(batch.JOB, new, [new], []).next


def _next_steps(root: Json, jobs: list[Json]) -> Iterator[str]:
    """Yield lines that say when the next Job starts, and how to rerun the last one if it failed."""
    spec, metadata = root["spec"], root["metadata"]
    name = f"{metadata.get('namespace')}/cronjob/{metadata['name']}"
    if spec.get("suspend"):
        yield f"no Job until it is resumed: retry-policy resume {name}"
    else:
        last = at(root, ("status", "lastScheduleTime"))
        overlap = OVERLAPS.get(spec.get("concurrencyPolicy") or "Allow", "")
        yield f"a Job by schedule {spec.get('schedule')}, which {overlap}" + (
            f"; the last was at {last}" if last else ""
        )
    if jobs and build.state_of(batch.JOB, jobs[-1]).startswith("Failed"):
        yield f"the last Job has failed; to rerun it: retry-policy retry {name}"


def parts(found: CronJobExplanation) -> Iterator[Part]:
    """Yield the table of its Jobs, and the lines before and after it."""
    suspended = ", suspended" if found.suspended else ""
    yield f"{found.kind} {found.namespace}/{found.name}: schedule {found.schedule}{suspended}"
    yield f"Each Job gets, by {found.gets_from}:"
    for line in found.gets:
        yield f"  {line}"
    if found.jobs:
        yield ""
        rows = [(row.name, row.created or "-", row.summary, row.state) for row in found.jobs]
        yield [("JOB", "CREATED", "ATTEMPTS", "STATE"), *rows]
        yield f"Each attempt of one: retry-policy explain {found.namespace}/job/{found.jobs[-1].name}"
    yield ""
    yield "Next:"
    for step in found.next:
        yield f"  {step}"
