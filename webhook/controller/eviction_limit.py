"""Carries out what the profile says about a workload that Kueue has evicted more often than `kueue.evictions.limit`."""

import structlog

from webhook import metrics
from webhook.accounts import words
from webhook.accounts.counting import EVICTED_TOO_OFTEN, CountingPass
from webhook.accounts.kueue import API_VERSION, RESOURCE, CountedEvictions, KueueWorkload
from webhook.controller.brake import Allows, subject_of
from webhook.controller.ends import WorkloadEnds
from webhook.kube import terminal
from webhook.kube.client import Api
from webhook.kube.events import Events, Notice
from webhook.kube.paths import path_of
from webhook.objects.problem import Json

log = structlog.get_logger()


class EvictionLimit:
    """Reports, deactivates or fails the workloads that were evicted too often; `allows`: as in `Authority`."""

    def __init__(self, api: Api, events: Events, ends: WorkloadEnds, allows: Allows) -> None:
        self.api = api
        self.events = events
        self.ends = ends
        self.allows = allows

    async def enforce(self, counting: CountingPass, workload: KueueWorkload | None) -> bool:
        """Act if the workload of a pass has exceeded its limit of evictions; raise what `Api` raises.

        Return False if the brake holds that, or Kueue has not stopped the Job yet, and True if no more is to be done.
        """
        found = counting.account.evictions
        if found is None or not found.is_exceeded or workload is None or has_ended(counting.root):
            return True
        on_exceed = counting.settings.profile.kueue.evictions.on_exceed
        if on_exceed == "Report":
            if counting.evictions:
                self.tell(counting, words.too_many_evictions(found))
            return True
        if on_exceed == "Fail" and counting.system.has_jobs:
            return await self.fail(counting, workload, words.too_many_evictions(found))
        return not workload.active or await self.deactivate(counting, found, workload)

    async def deactivate(self, counting: CountingPass, found: CountedEvictions, workload: KueueWorkload) -> bool:
        """Set `spec.active` of the Workload to false, as Kueue itself does after too many requeues."""
        if not self.allows("suspend", counting.key.kind, counting.root, words.deactivation(found)):
            return False
        path = path_of(API_VERSION, RESOURCE, workload.namespace, workload.name)
        test = {"op": "test", "path": "/metadata/uid", "value": workload.uid}
        await self.api.patch(path, [test, {"op": "add", "path": "/spec/active", "value": False}])
        metrics.LEDGER_STOPPED.labels("Deactivated", EVICTED_TOO_OFTEN).inc()
        log.info("Workload deactivated", namespace=workload.namespace, name=workload.name)
        self.tell(counting, words.deactivated(found, workload.namespace, workload.name))
        return True

    async def fail(self, counting: CountingPass, workload: KueueWorkload, message: str) -> bool:
        """Fail the Job or the JobSet; the Workload of another kind is deactivated instead."""
        key, kind = counting.key, counting.key.kind
        whole, evicted = await self.ends.read(key), workload.eviction is not None
        if whole is None:
            return True
        if not key.job_set and evicted and not _is_stopped(whole):
            return False
        if not self.allows("fail", kind, counting.root, f"fail it: {message}"):
            return False
        if key.job_set or not evicted:
            await self.ends.fail(kind, whole, EVICTED_TOO_OFTEN, message)
        elif not terminal.is_decided(whole["status"]):
            await self.ends.end_suspended(whole, EVICTED_TOO_OFTEN, message)
        return True

    def tell(self, counting: CountingPass, message: str) -> None:
        """Write an Event on the Job or the JobSet."""
        about = subject_of(counting.key.kind, counting.root)._asdict()
        self.events.tell(Notice(**about, type="Warning", reason=EVICTED_TOO_OFTEN, message=message))


def _is_stopped(job: Json) -> bool:
    """Return True if a Job is suspended, and has no pods: neither running ones, nor ended ones to be counted."""
    status = job.get("status") or {}
    uncounted = any((status.get("uncountedTerminatedPods") or {}).values())
    has_pods = bool(status.get("active") or status.get("terminating") or uncounted)
    return bool(job["spec"].get("suspend")) and not has_pods


def has_ended(root: Json) -> bool:
    """Return True if a Job or JobSet has ended, or is about to."""
    return terminal.condition_of(root) is not None or terminal.is_decided(root.get("status") or {})
