"""One row per kind: where its JobSpecs stand and which fields the rules read. Adding a kind is a row and its test."""

from typing import Final

from webhook.workloads import batch, core
from webhook.workloads.row import EmbeddedJob, OwnerReference, Workload

__all__ = ["WORKLOADS", "EmbeddedJob", "OwnerReference", "Workload"]

# By group and kind, as a request names them.
WORKLOADS: Final = {(row.group, row.kind): row for row in (batch.JOB, batch.CRON_JOB, core.POD)}
