"""One JobSet under a policy: the webhook's own admission and ledger, and the controllers of Jobs and JobSets.

Those are models, as far as pods that fail go: tests/unit/accounts/simulated.py, and tests/job_sets.py.
"""

from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

import msgspec

from tests.accounts import stored
from tests.admission import OPTED_IN, mutate, policy, validate
from tests.histories import index_of
from tests.job_sets import Course, pods_of_jobs
from tests.unit.accounts.simulated import World
from tests.unit.controller.alone import Alone
from webhook.accounts import limits, settling
from webhook.accounts.account import Attempt
from webhook.accounts.counted import PodsOfJob
from webhook.accounts.counting import CountingPass
from webhook.accounts.stored import decode, encode
from webhook.accounts.tracker import Key
from webhook.explain.build import Explanation, explain
from webhook.objects.problem import Json
from webhook.pods import matching, pods
from webhook.pods.matching import JobEnd
from webhook.policy.model import Profile
from webhook.policy.settings import NamedProfile, Settings
from webhook.rules import annotations
from webhook.rules.facts import Facts
from webhook.systems.job import spec as batch
from webhook.systems.job_set.spec import (
    COSTLY_JOB_RESTARTS,
    JOB_INDEX,
    JOB_RESTART,
    JOB_RESTARTS,
    JOB_SET,
    REPLICATED_JOB,
    RESTART,
    SET_NAME,
)
from webhook.tracking.workload_state import WorkloadState

KEY: Final = Key("ml", JOB_SET, "set")
MESSAGES: Final = {
    "BackoffLimitExceeded": "Job has reached the specified backoff limit",
    "FailedIndexes": "Job has failed indexes",
    "MaxFailedIndexesExceeded": "Job has exceeded the specified maximal number of failed indexes",
}


@dataclass
class Child(World):
    """A Job of a JobSet."""

    job_set: Json = field(default_factory=dict)

    def see_job(self) -> None:
        self.state.tracker.see_job(self.job, alone=False)  # type: ignore[arg-type]

    def facts_of_pod(self, index: str) -> Facts:
        scope = limits.scope_named("set", self.job["metadata"]["name"], index)
        disruptions = self.state.disruptions_of(scope, self.job, self.job_set)
        return Facts(
            profile_name="default",
            owner=self.job,
            owners_known=True,
            above=self.job_set,
            disruptions=limits.share_of(disruptions, self.spec),
        )

    def lose(self, index: str) -> None:
        super().lose(index)
        if not self.over and len(self.lost) == self.spec["completions"]:
            self.fail("FailedIndexes")


@dataclass
class SetWorld:
    """A JobSet from its creation on; `over` says why it has ended, empty while it runs."""

    profile: Profile
    root: Json
    course: Course
    jobs: dict[str, Child] = field(default_factory=dict)  # by name, without that of the set
    state: WorkloadState = field(default_factory=lambda: WorkloadState(Alone()))
    made: Iterator[int] = field(default_factory=lambda: count(1))
    ended: Iterator[int] = field(default_factory=lambda: count(1))
    runs: Iterator[int] = field(default_factory=lambda: count(1))
    costly_alone: Counter[str] = field(default_factory=Counter)
    over: str = ""

    @classmethod
    def of(cls, profile: Profile, manifest: Json) -> "SetWorld | None":
        """Create a JobSet; None where it is refused."""
        under = policy(default=profile)
        created = mutate(manifest, OPTED_IN, under)
        if not created.allowed or not validate(created.object, under=under).allowed:
            return None
        root = created.object
        root["metadata"] |= {"uid": "set-uid", "resourceVersion": "1"}
        world = cls(profile, root, Course(root))
        world.write_status()
        for name in pods_of_jobs(root):
            world.start(name)
        return world

    def settings_of(self, root: Json) -> Settings:
        return NamedProfile("default", self.profile).settings(annotations.of(root))

    @property
    def live(self) -> dict[str, str]:
        """The running pods by uid, each with the name of its Job."""
        return {uid: name for name, child in self.jobs.items() if not child.over for uid in child.live}

    def write_status(self) -> None:
        """Let the JobSet controller write how often the set and its Jobs were restarted."""
        course, of_jobs = self.course, []
        for one in self.root["spec"]["replicatedJobs"]:
            jobs = [f"{one['name']}-{index}" for index in range(one["replicas"])]
            found = {"name": one["name"]}
            if any(course.alone[job] for job in jobs):
                found[JOB_RESTARTS] = [course.alone[job] for job in jobs]
                found[COSTLY_JOB_RESTARTS] = [self.costly_alone[job] for job in jobs]
            of_jobs.append(found)
        costly = course.costly - self.costly_alone.total()
        self.root["status"] = {
            "restarts": course.restarts,
            "restartsCountTowardsMax": costly,
            "replicatedJobsStatus": of_jobs,
        }

    def start(self, name: str) -> None:
        """Create a Job as the JobSet controller does, through admission, and its pods."""
        replicated_job, _, index = name.rpartition("-")
        templates = {one["name"]: one["template"] for one in self.root["spec"]["replicatedJobs"]}
        template = deepcopy(templates[replicated_job])
        labels = {
            SET_NAME: "set",
            REPLICATED_JOB: replicated_job,
            JOB_INDEX: index,
            RESTART: str(self.course.restarts),
            JOB_RESTART: str(self.course.alone[name]),
            batch.JOBS_OF_SET: str(len(pods_of_jobs(self.root))),
        }
        spec, number = template["spec"], next(self.runs)
        pod_metadata = spec["template"].setdefault("metadata", {})
        pod_metadata["labels"] = {**(pod_metadata.get("labels") or {}), **labels}
        spec.setdefault("backoffLimit", batch.UNLIMITED if "backoffLimitPerIndex" in spec else 6)
        owner = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "set", "uid": "set-uid"}
        metadata = template.get("metadata") or {}
        job = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                **metadata,
                "name": f"set-{name}",
                "namespace": "ml",
                "labels": labels,
                "ownerReferences": [{**owner, "controller": True}],
            },
            "spec": spec,
        }
        facts = Facts(profile_name="default", owner=self.root, owners_known=True)
        admitted = mutate(job, facts, policy(default=self.profile)).object
        admitted["metadata"] |= {"uid": f"job-{number}", "resourceVersion": "1"}
        admitted["status"] = {}
        self.jobs[name] = Child(
            self.profile, admitted, state=self.state, made=self.made, ended=self.ended, job_set=self.root
        )
        self.jobs[name].start()

    def stop(self, name: str) -> None:
        """Delete a Job and its pods."""
        child, tracker = self.jobs.pop(name), self.state.tracker
        for uid in child.live:
            tracker.running.pop(uid)
        for uid in child.failed:
            tracker.see_failed_gone(uid)
        tracker.see_job_gone(child.job["metadata"]["uid"])

    def end(self, uid: str, ending: int) -> tuple[str, Json]:
        """End a pod by a disruption or with an exit code; return the name of its Job, and the pod."""
        name = self.live[uid]
        return name, self.jobs[name].end(uid, ending)

    def react(self, name: str, pod: Json) -> None:
        """Let the JobSet controller see that a Job has failed, if it has, by the end of a pod."""
        child = self.jobs[name]
        if not child.over or self.over:
            return
        matched = matching.match((child.spec.get("podFailurePolicy") or {}).get("rules") or [], pods.read(pod))
        message = MESSAGES.get(child.over) or ("" if matched is None else matched.message)
        restarts, alone, costly = self.course.restarts, self.course.alone[name], self.course.costly
        self.course.end(name, JobEnd(child.over, message))
        if self.course.ended:
            self.over = "controller"
            return
        if self.course.alone[name] > alone:
            self.costly_alone[name] += self.course.costly - costly
        again = list(self.jobs) if self.course.restarts > restarts else [name]
        for one in again:
            self.stop(one)
        self.write_status()
        for one in again:
            self.start(one)

    def count(self) -> Attempt | None:
        """Let the leader count what is not counted; return what it counted last."""
        account = decode(self.state.text)
        found = CountingPass(KEY, self.root, self.root, self.state.tracker, account, self.settings_of)
        found.count(self.state.tracker.uncounted(account))
        end = found.end(found.details)
        text = encode(account)
        self.state.see_account(text, decode(text))
        if end is not None:
            self.over = end.reason
        return found.details[-1] if found.details else None

    def settles(self, name: str, pod: Json) -> bool:
        """Return True if the leader ends the set for a crash that nothing explains."""
        child = self.jobs[name]
        settings = self.settings_of(child.job)
        if child.over:
            return False
        within = settling.window(child.job, settings)
        return settling.bug_in(PodsOfJob(child.job, self.root, settings), pods.read(pod), within) is not None

    def replacement(self, name: str, pod: Json) -> Json | None:
        """Return the pod that runs next in the index of a failed one; None where there is none."""
        child, index = self.jobs[name], index_of(pod)
        if index in child.lost:
            return None
        running = [one for one in child.live.values() if index_of(one) == index]
        return running[0] if running and index else child.create(index)

    def explained(self) -> Explanation:
        """Return what `explain` tells of the JobSet as the API has it."""
        jobs = [child.job for child in self.jobs.values()]
        parts = [pod for child in self.jobs.values() for pod in (*child.live.values(), *child.failed.values())]
        if self.state.text is not None:
            parts.append(stored(JOB_SET, self.root, self.state.text))
        found: Any = msgspec.json.decode(msgspec.json.encode([self.root, jobs, parts]))
        return explain(JOB_SET, *found)
