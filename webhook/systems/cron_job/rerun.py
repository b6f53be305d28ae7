"""The retry of a CronJob is that of its last Job; the CronJob's annotation `retryable` applies to its Jobs."""

from typing import Final

from webhook.objects.problem import Json, Problem
from webhook.systems.adapter import Adapter, Right, Workload
from webhook.systems.cron_job.spec import CRON_JOB
from webhook.systems.job import rerun as job


def rights(_: Json) -> list[Right]:
    """Return the permissions for the retry of any Job."""
    return [*job.REPLACES, job.WRITES_STATUS]


def run_id(found: Workload) -> str:
    """Return the uid of the last Job; empty if there is none."""
    return "" if found.run is None else str(found.run["metadata"]["uid"])


def refusal(found: Workload) -> Problem | None:
    """Return why the last Job cannot run again; None if it can.

    The text does not name the CronJob: it becomes a warning, and these have at most 120 characters.
    """
    if found.placeholder is not None:
        return Problem((), "a retry of its last Job has begun", "wait until it has ended")
    if found.run is None:
        return Problem((), "it has no Job to retry", "wait for its next Job")
    return job.refusal(found.run, found.root)


def promise(found: Workload) -> str:
    """Return what of the last Job will run again, without the verb; empty if there is none."""
    run = found.placeholder or found.run
    return "" if run is None else job.promise(run)


def cannot_be_suspended(_: Json) -> None:
    """Return None: any CronJob can be suspended."""


ADAPTER: Final = Adapter(
    row=CRON_JOB,
    rights=rights,
    run_id=run_id,
    refusal=refusal,
    promise=promise,
    cannot_be_suspended=cannot_be_suspended,
    runs=job.ADAPTER,
)
