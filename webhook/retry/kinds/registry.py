"""The adapter of each kind that can run again."""

from typing import Final

from webhook.kinds import KindSpec
from webhook.retry.kinds import cron_job, job, job_set, pipeline_run, ray_job, volcano_job, workflow
from webhook.retry.kinds.adapter import Adapter

ALL: Final = (job, job_set, cron_job, pipeline_run, workflow, ray_job, volcano_job)
ADAPTERS: Final[dict[KindSpec, Adapter]] = {one.ADAPTER.row: one.ADAPTER for one in ALL}
