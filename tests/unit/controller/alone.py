"""A tracker of one workload for tests: with its own Jobs, and with no other pods."""

from collections.abc import Container

from webhook.accounts.cached import CachedJob
from webhook.accounts.tracker import Tracker
from webhook.pods.pods import Pod
from webhook.systems.kind_spec import KindSpec
from webhook.tracking.workload_state import WorkloadState


class Alone(Tracker):
    """Takes what the watches deliver of one workload, as `Trackers` does it for all."""

    def __init__(self) -> None:
        self.known: dict[str, CachedJob] = {}
        self.before = 0  # status.succeeded before the gap
        super().__init__(find=self.named)

    def named(self, _row: KindSpec, _namespace: str, name: str) -> CachedJob | None:
        return self.known.get(name)

    def see_job(self, job: CachedJob, *, alone: bool, steady: bool = True) -> None:
        self.known[job["metadata"]["name"]] = job
        super().see_job(job, alone=alone)
        if steady and alone and not self.vanished:
            self.before = job["status"].get("succeeded") or 0

    def see_job_gone(self, uid: str) -> None:
        self.known = {name: job for name, job in self.known.items() if job["metadata"]["uid"] != uid}
        super().see_job_gone(uid)

    def see_only(self, there: Container[str], now: float) -> bool:
        for uid in self.running.missing(there):
            pod = self.running.pop(uid)
            if pod is not None:
                self.see_vanished(pod, now, self.before)
        self.see_which_exist(there)
        return bool(self.vanished)

    def is_behind(self, uid: str, index: str) -> bool:
        (job,) = (job for job in self.known.values() if job["metadata"]["uid"] == uid)
        return self.running.is_behind(job, index)

    @property
    def failed_now(self) -> dict[str, Pod]:
        return {} if self.failed is None else {uid: one.pod for uid, one in self.failed.pods.items()}

    @property
    def restarted_now(self) -> dict[str, Pod]:
        return {} if self.restarted is None else self.restarted.pods

    @property
    def ends(self) -> dict[str, tuple[Pod, ...]]:
        return {scope: self.ends_of(scope) for scope in self.last_ends}


def state_alone() -> tuple[WorkloadState, Alone]:
    """Return the state of one workload, and its tracker."""
    tracker = Alone()
    return WorkloadState(tracker), tracker
