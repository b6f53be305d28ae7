"""batch/v1: CronJobs."""

from typing import Final

from webhook.systems.core import METADATA
from webhook.systems.job.spec import JOB_SPEC
from webhook.systems.kind_spec import KindSpec

CRON_JOB: Final = KindSpec(
    group="batch",
    versions=("v1",),
    kind="CronJob",
    resource="cronjobs",
    shape={"metadata": METADATA, "spec": {"jobTemplate": {"metadata": METADATA, "spec": JOB_SPEC}}},
    job_specs=(("spec", "jobTemplate", "spec"),),
)
