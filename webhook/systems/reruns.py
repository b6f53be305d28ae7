"""The adapter of each kind that can run again."""

from typing import Final

from webhook.systems.adapter import Adapter
from webhook.systems.argo import rerun as workflow
from webhook.systems.cron_job import rerun as cron_job
from webhook.systems.job import rerun as job
from webhook.systems.job_set import rerun as job_set
from webhook.systems.kind_spec import KindSpec
from webhook.systems.ray import rerun as ray_job
from webhook.systems.tekton import rerun as pipeline_run
from webhook.systems.volcano import rerun as volcano_job

ALL: Final = (job, job_set, cron_job, pipeline_run, workflow, ray_job, volcano_job)
ADAPTERS: Final[dict[KindSpec, Adapter]] = {one.ADAPTER.row: one.ADAPTER for one in ALL}
