"""Lets pods of many JobSets fail, in each set one after the other, always when all pods of the set are running."""

from __future__ import annotations

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from queue import Empty, Queue
from typing import TYPE_CHECKING, Any, Final

from tests.awaiting import LONGEST
from tests.cluster.manifests import EXIT_CODE
from tests.cluster.namespace import PATHS
from tests.cluster.objects import condition, is_running
from tests.job_sets import EVICTED, pods_of_jobs

if TYPE_CHECKING:
    from tests.cluster.kubectl import Object
    from tests.cluster.namespace import Namespace
    from tests.job_sets import Failure

SET: Final = "jobset.sigs.k8s.io/"
RESOURCES: Final = ("pods", "jobsets")


@dataclass
class FailingSet:
    """A JobSet, the failures of its pods that are still to come, and its observed state."""

    team: Namespace
    name: str
    jobs: dict[str, int]
    left: list[Failure]
    found: Object = field(default_factory=dict)
    pods: dict[str, Object] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)

    @property
    def has_failed(self) -> bool:
        return bool(condition(self.found, "Failed"))

    @property
    def is_over(self) -> bool:
        return self.has_failed or (not self.left and self.runs)

    @property
    def running(self) -> dict[str, list[Object]]:
        """Return the running pods of the current start of the set, by Job, without those that are about to fail."""
        found: dict[str, list[Object]] = defaultdict(list)
        for uid, pod in self.pods.items():
            labels = pod["metadata"]["labels"]
            job = f"{labels[SET + 'replicatedjob-name']}-{labels[SET + 'job-index']}"
            starts = labels[SET + "restart-attempt"], labels[SET + "job-restart-attempt"]
            if is_running(pod) and uid not in self.failed and starts == self.starts(job):
                found[job].append(pod)
        return found

    @property
    def runs(self) -> bool:
        """Return True if all pods of the set are running."""
        return {job: len(pods) for job, pods in self.running.items()} == self.jobs

    def starts(self, job: str) -> tuple[str, str]:
        """Return the restarts of the set, and those of one Job alone."""
        return str(self.found.get("status", {}).get("restarts", 0)), str(restarts_alone(self.found).get(job, 0))

    def fail_next(self) -> None:
        """Let the next pod fail, if all pods are running and none waits to be replaced."""
        if self.left and not self.has_failed and self.runs:
            job, code = self.left.pop(0)
            pod = min(self.running[job], key=lambda one: str(one["metadata"]["name"]))
            self.failed.add(pod["metadata"]["uid"])
            path = f"api/v1/namespaces/{self.team.name}/pods/{pod['metadata']['name']}"
            if code == EVICTED:
                metadata = {"name": pod["metadata"]["name"]}
                eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
                self.team.api.send("POST", f"{path}/eviction", eviction)
            else:
                self.team.api.send("PATCH", path, {"metadata": {"annotations": {EXIT_CODE: str(code)}}})


def restarts_alone(found: Object) -> dict[str, int]:
    """Return the restarts of each Job that was restarted without the others."""
    return {
        f"{one['name']}-{index}": number
        for one in found.get("status", {}).get("replicatedJobsStatus", [])
        for index, number in enumerate(one.get("jobRestarts", []))
        if number
    }


def let_fail(sets: list[FailingSet]) -> None:
    """Let the pods of all sets fail, in all sets at the same time; raise AssertionError if a set is stuck."""
    by_name = {(one.team.name, one.name): one for one in sets}
    teams = {one.team.name: one.team for one in sets}
    events: Queue[tuple[str, str, str, Object]] = Queue()
    ended: list[bool] = []
    with ThreadPoolExecutor() as executor:
        for team in teams.values():
            for resource in RESOURCES:
                executor.submit(watch, team, resource, events, ended)
        try:
            left = set(by_name)
            while left:
                left -= {handle_event(by_name, *events.get(timeout=LONGEST))}
        except Empty:
            stuck = {key: (by_name[key].left, by_name[key].found.get("status")) for key in left}
            raise AssertionError(f"no event for {LONGEST:g} s about {stuck}") from None
        finally:
            ended.append(True)


def handle_event(
    by_name: dict[tuple[str, str], FailingSet], resource: str, kind: str, namespace: str, found: Object
) -> tuple[str, str] | None:
    """Record an event, and let the set's next pod fail if it is its turn; return the set's key when it has ended."""
    labels = found["metadata"].get("labels", {})
    key = namespace, labels.get(SET + "jobset-name", "") if resource == "pods" else found["metadata"]["name"]
    one = by_name.get(key)
    if one is None:
        return None
    if resource == "jobsets":
        one.found = found
    else:
        uid = found["metadata"]["uid"]
        one.seen.add(uid)
        one.pods[uid] = found
        if kind == "DELETED":
            del one.pods[uid]
    one.fail_next()
    return key if one.is_over else None


def watch(team: Namespace, resource: str, events: Queue[Any], ended: list[bool]) -> None:
    """Put all objects and events of a resource in a namespace into the queue `events`, until `ended` has an entry."""
    path = f"{PATHS[resource]}/namespaces/{team.name}/{resource}"
    while not ended:
        listed = team.api.list(path)
        for item in listed["items"]:
            events.put((resource, "ADDED", team.name, item))
        version = listed["metadata"]["resourceVersion"]
        for kind, item in team.api.watch(path, resourceVersion=version, timeoutSeconds="20"):
            events.put((resource, kind, team.name, item))


def failing_set(team: Namespace, manifest: Object, failures: list[Failure]) -> FailingSet:
    """Create a set whose pods will fail like this; return it as stored."""
    made = team.api.send("POST", f"{PATHS['jobsets']}/namespaces/{team.name}/jobsets", manifest)
    assert made["kind"] == "JobSet", made
    return FailingSet(team, made["metadata"]["name"], pods_of_jobs(manifest), list(failures), found=made)
