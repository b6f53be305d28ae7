"""batch.volcano.sh/v1alpha1: Volcano's Jobs.

Source: pkg/controllers/job and pkg/webhooks of Volcano 1.13.0. spec.maxRetry counts runs, and is 3 where left out; a
task's is a bound on its containers' restarts, after which an event is sent, -1 is none. Hardly anything of a Job may be
changed.
"""

from typing import Final

from webhook.patch import EVERY
from webhook.workloads.core import METADATA, POD_TEMPLATE
from webhook.workloads.row import RetryField, Workload

JOB: Final = Workload(
    group="batch.volcano.sh",
    versions=("v1alpha1",),
    kind="Job",
    resource="jobs",
    shape={
        "metadata": METADATA,
        "spec": {
            "maxRetry": int,
            "tasks": [{"maxRetry": int, "template": POD_TEMPLATE}],
        },
    },
    immutable=True,
    owns_pods=True,
    pod_templates=(("spec", "tasks", EVERY, "template"),),
    retry_fields=(
        RetryField(within=("spec",), name=("maxRetry",), absent=2, single=1),
        RetryField(
            within=("spec", "tasks", EVERY), name=("maxRetry",), absent=3, made=False, negative_is_unlimited=True
        ),
    ),
)

ROWS: Final = (JOB,)
