"""The adapter of each kind that can run again."""

from typing import Final

from webhook.kinds import KindSpec
from webhook.retry.kinds import cron_job, job, job_set, pipeline_run, workflow
from webhook.retry.kinds.adapter import Adapter

ADAPTERS: Final[dict[KindSpec, Adapter]] = {
    one.row: one for one in (job.ADAPTER, job_set.ADAPTER, cron_job.ADAPTER, pipeline_run.ADAPTER, workflow.ADAPTER)
}
