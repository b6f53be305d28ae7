"""Simulates one Job: with the webhook's own admission and ledger, and a Job controller that handles failed pods.

tests/cluster/test_forecast.py runs the same histories with the real Job controller.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

import msgspec

from tests.accounts import stored
from tests.admission import OPTED_IN, mutate, policy, validate
from tests.histories import DISRUPTION, index_of, matches
from tests.unit.controller.alone import Alone
from webhook.accounts import limits, settling
from webhook.accounts.account import Attempt
from webhook.accounts.counted import PodsOfJob
from webhook.accounts.counting import CountingPass
from webhook.accounts.stored import decode, encode
from webhook.accounts.tracker import Key
from webhook.explain.build import Explanation, explain
from webhook.objects.problem import Json
from webhook.pods import pods
from webhook.policy.model import Profile
from webhook.policy.settings import NamedProfile, Settings
from webhook.rules import annotations
from webhook.rules.facts import Facts
from webhook.systems.job import spec as batch
from webhook.tracking.workload_state import WorkloadState

KEY: Final = Key("ml", batch.JOB, "train")


@dataclass
class World:
    """A Job and its pods; `over` is the reason for which the Job has ended, empty while it runs."""

    profile: Profile
    job: Json
    live: dict[str, Json] = field(default_factory=dict)
    failed: dict[str, Json] = field(default_factory=dict)
    state: WorkloadState = field(default_factory=lambda: WorkloadState(Alone()))
    counts: dict[str, tuple[int, int]] = field(default_factory=dict)  # of an index: failures, and those that cost none
    lost: set[str] = field(default_factory=set)  # indexes that have failed for good
    failures: int = 0
    made: Iterator[int] = field(default_factory=lambda: count(1))  # numbers of pods
    ended: Iterator[int] = field(default_factory=lambda: count(1))
    over: str = ""

    @classmethod
    def of(cls, profile: Profile, manifest: Json) -> "World | None":
        """Create a Job; return None if it is denied."""
        under = policy(default=profile)
        created = mutate(manifest, OPTED_IN, under)
        if not created.allowed or not validate(created.object, under=under).allowed:
            return None
        job = created.object
        job["metadata"] |= {"uid": "job-uid", "resourceVersion": "1"}
        job["status"] = {}
        world = cls(profile, job)
        world.start()
        return world

    def start(self) -> None:
        """Create the first pods."""
        self.see_job()
        for number in range(batch.running_at_once(self.spec)):
            self.create(str(number) if batch.is_indexed(self.spec) else "")

    @property
    def spec(self) -> Json:
        found: Json = self.job["spec"]
        return found

    def settings_of(self, root: Json) -> Settings:
        return NamedProfile("default", self.profile).settings(annotations.of(root))

    def see_job(self) -> None:
        self.state.tracker.see_job(self.job, alone=True)  # type: ignore[arg-type]

    def create(self, index: str) -> Json:
        """Create a pod as the Job controller does, through admission."""
        number, metadata = next(self.made), self.job["metadata"]
        template = self.spec["template"].get("metadata") or {}
        said = dict(template.get("annotations") or {})
        if index:
            said[pods.INDEX] = index
        if self.spec.get("backoffLimitPerIndex") is not None:
            failures, ignored = self.counts.get(index, (0, 0))
            said[batch.INDEX_FAILURES] = str(failures)
            if ignored:
                said[batch.INDEX_IGNORED_FAILURES] = str(ignored)
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": metadata["name"], "uid": metadata["uid"]}
        root = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "namespace": "ml",
                "name": f"{metadata['name']}-{number}",
                "uid": f"uid-{number:04}",
                "finalizers": [pods.TRACKING],
                "ownerReferences": [{**owner, "controller": True}],
                "labels": dict(template.get("labels") or {}),
                "annotations": said,
            },
            "spec": self.spec["template"]["spec"],
        }
        pod: Json = mutate(root, self.facts_of_pod(index), policy(default=self.profile)).object
        pod["status"] = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}
        self.live[pod["metadata"]["uid"]] = pod
        self.state.tracker.see(pods.read(pod), 0.0)
        if self.spec.get("backoffLimitPerIndex") is not None:
            self.job["status"]["failed"] = self.failures  # it counts a failure when the pod is replaced
            self.see_job()
        return pod

    def facts_of_pod(self, index: str) -> Facts:
        """Return what the webhook looks up when a pod is created."""
        disruptions = self.state.disruptions_of(index, self.job, None)
        return Facts(
            profile_name="default",
            owner=self.job,
            owners_known=True,
            disruptions=limits.share_of(disruptions, self.spec),
            failures=self.state.failures_of(self.job),
        )

    def end(self, uid: str, ending: int) -> Json:
        """End a pod by a disruption or with an exit code; the Job controller judges it. Return it."""
        pod = self.live.pop(uid)
        self.failed[uid] = pod
        number = next(self.ended)
        terminated = {"exitCode": ending or 137, "reason": "Error", "finishedAt": f"2026-01-01T01:{number:02}:00Z"}
        pod["status"] |= {
            "phase": "Failed",
            "containerStatuses": [{"name": "main", "state": {"terminated": terminated}}],
        }
        if ending == DISRUPTION:
            condition = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
            pod["status"]["conditions"] = [{**condition, "lastTransitionTime": terminated["finishedAt"]}]
        self.judge(pod, action_of(self.spec, ending))
        self.state.tracker.see(pods.read(pod), float(number))
        return pod

    def judge(self, pod: Json, action: str) -> None:
        """Count a failed pod; fail the index or the Job if the policy says so."""
        index = index_of(pod)
        pod_annotations = pod["metadata"]["annotations"]
        if batch.INDEX_FAILURES in pod_annotations:
            failures = int(pod_annotations[batch.INDEX_FAILURES])
            ignored = int(pod_annotations.get(batch.INDEX_IGNORED_FAILURES, 0))
            self.counts[index] = (failures + (action != "Ignore"), ignored + (action == "Ignore"))
        if action == "Ignore":
            return
        self.failures += 1
        if self.spec.get("backoffLimitPerIndex") is None:
            self.job["status"]["failed"] = self.failures
        if action == "FailJob":
            self.fail("PodFailurePolicy")
        elif self.failures > batch.sum_of_failures(self.spec):
            self.fail("BackoffLimitExceeded")
        elif self.spec.get("backoffLimitPerIndex") is not None and (
            action == "FailIndex" or self.counts[index][0] > self.spec["backoffLimitPerIndex"]
        ):
            self.lose(index)
        self.see_job()

    def lose(self, index: str) -> None:
        """Let an index fail for good."""
        self.lost.add(index)
        self.job["status"]["failedIndexes"] = ",".join(sorted(self.lost, key=int))
        most = self.spec.get("maxFailedIndexes")
        if most is not None and len(self.lost) > most:
            self.fail("MaxFailedIndexesExceeded")

    def fail(self, reason: str) -> None:
        """Let the Job fail."""
        if not self.over:
            self.over = reason
            self.job["status"]["conditions"] = [{"type": "FailureTarget", "status": "True", "reason": reason}]
            self.see_job()

    def count(self, bugs: tuple[str, ...] = ()) -> Attempt | None:
        """Let the leader count the pods that are not counted; return the last attempt that it counted."""
        account = decode(self.state.text)
        found = CountingPass(KEY, self.job, None, self.state.tracker, account, self.settings_of)
        found.count(self.state.tracker.uncounted(account))
        if account.suspended and not self.spec.get("suspend"):
            found.reset_limits()
        for name in bugs:
            found.settle(name)
        end = found.end(found.details)
        if found.suspends(found.details):
            found.suspend()
            self.spec["suspend"] = True
        text = encode(account)
        self.state.see_account(text, decode(text))
        self.see_job()
        if end is not None:
            self.fail(end.reason)
        return found.details[-1] if found.details else None

    def settle(self, pod: Json) -> bool:
        """Let the leader settle a crash that no disruption explains; return True if it was a bug."""
        within = settling.window(self.job, self.settings_of(self.job))
        bug = settling.bug_in(PodsOfJob(self.job, None, self.settings_of(self.job)), pods.read(pod), within)
        if bug is None:
            return False
        self.fail("PodFailurePolicy")
        self.count(bugs=(pod["metadata"]["name"],))
        return True

    def resume(self) -> None:
        """Resume the Job, as a user does."""
        self.spec["suspend"] = False
        self.see_job()

    def explained(self) -> Explanation:
        """Return what `explain` shows of the stored Job."""
        parts = [*self.live.values(), *self.failed.values()]
        if self.state.text is not None:
            parts.append(stored(batch.JOB, self.job, self.state.text))
        found: Any = msgspec.json.decode(msgspec.json.encode([self.job, *parts]))
        return explain(batch.JOB, found[0], [found[0]], found[1:])


def action_of(spec: Json, ending: int) -> str:
    """Return the action of a Job's failure policy for an ending, empty if no rule matches."""
    rules = (spec.get("podFailurePolicy") or {}).get("rules") or ()
    return next((str(rule["action"]) for rule in rules if matches(rule, ending)), "")
