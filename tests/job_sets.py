"""A model of the controllers of Jobs and JobSets, for JobSets whose authors have written failure rules.

The model does what pkg/controller/job of Kubernetes 1.36 and pkg/controllers/failure_policy.go of JobSet 0.12 do, one
failed pod after the other. tests/unit runs a rendered JobSet and its original through the model and compares them;
tests/cluster compares the model with the controllers.
"""

from collections import Counter
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from tests.objects import container_of, exit_codes
from tests.strategies import record
from webhook.objects.problem import Json
from webhook.pods.matching import POD_FAILURE_POLICY, JobEnd, match, rule_of_set
from webhook.pods.pods import Condition, Exit, Pod
from webhook.systems.job_set.spec import FAIL_SET, FREE, RESTART_SET

EVICTED = 0  # instead of an exit code: the pod was disrupted
KILLED = 137  # the exit code of a disrupted pod
CODES = (1, 42, 75, 143)
Failure = tuple[str, int]  # the name of a child Job, and the exit code of its pod or EVICTED
BACKOFF_LIMIT = 6

ON_DISRUPTION: Json = {"onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
JOB_RULES = st.sampled_from(
    [
        {"action": "FailJob", **ON_DISRUPTION},
        {"action": "Ignore", **ON_DISRUPTION},
        {"action": "Count", **ON_DISRUPTION},
        exit_codes("FailJob", "In", 42),
        exit_codes("FailJob", "NotIn", 143, container="main"),
        exit_codes("Count", "In", 1, 42),
        exit_codes("Ignore", "In", 75),
    ]
)
REASONS = ("PodFailurePolicy", "BackoffLimitExceeded")
ACTIONS = (
    "FailJobSet",
    "RestartJobSet",
    "RestartJobSetAndIgnoreMaxRestarts",
    "RestartJob",
    "RestartJobAndIgnoreMaxRestarts",
)
PATTERNS = ("exit code 42", "FailJob rule at index 0", ".*has condition DisruptionTarget.*", "backoff", ".*")


@st.composite
def job_sets(draw: st.DrawFn, backoff_limits: tuple[int | None, ...], restart_policies: tuple[str | None, ...]) -> Json:
    """JobSets of one to three replicated Jobs; the fields that decide about failures are drawn, None leaves one out."""
    names = ["a", "b", "c"][: draw(st.integers(1, 3))]
    rule = record(
        {"action": st.sampled_from(ACTIONS)},
        onJobFailureReasons=st.lists(st.sampled_from(REASONS), min_size=1, max_size=2, unique=True),
        targetReplicatedJobs=st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True),
        onJobFailureMessagePatterns=st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=2, unique=True),
    )
    limits, rules = st.sampled_from([0, 1, 2, 3, 3]), st.lists(rule, min_size=1, max_size=3).map(named)
    policy = record({"maxRestarts": limits}, rules=rules) | st.fixed_dictionaries(
        {"maxRestarts": limits, "rules": rules}
    )
    jobs = [replicated_job(draw, name, backoff_limits, restart_policies) for name in names]
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "set", "namespace": "ml"},
        "spec": {**({"failurePolicy": draw(policy)} if draw(st.integers(0, 7)) else {}), "replicatedJobs": jobs},
    }


def named(rules: list[Json]) -> list[Json]:
    """Return rules with the names that JobSet's own webhook gives them."""
    return [{"name": f"rule{index}", **rule} for index, rule in enumerate(rules)]


def replicated_job(
    draw: st.DrawFn, name: str, backoff_limits: tuple[int | None, ...], restart_policies: tuple[str | None, ...]
) -> Json:
    pods, restart_policy = draw(st.sampled_from([1, 1, 2])), draw(st.sampled_from(restart_policies))
    said: Json = {"backoffLimit": draw(st.sampled_from(backoff_limits))}
    if restart_policy == "Never":
        said |= draw(record({}, podFailurePolicy=record({"rules": st.lists(JOB_RULES, min_size=1, max_size=2)})))
    pod_spec = {"restartPolicy": restart_policy, "containers": [container_of("main")]}
    spec = {
        **{key: value for key, value in said.items() if value is not None},
        "completionMode": "Indexed",
        "completions": pods,
        "parallelism": pods,
        "template": {"spec": {key: value for key, value in pod_spec.items() if value is not None}},
    }
    return {"name": name, "replicas": draw(st.sampled_from([1, 1, 2])), "template": {"spec": spec}}


def failures(root: Json, most: int) -> st.SearchStrategy[list[Failure]]:
    """Sequences of pods of a JobSet that fail; some Jobs fail more often than others."""
    job = st.sampled_from(list(pods_of_jobs(root)))
    return st.lists(st.tuples(job, st.sampled_from([*CODES, 1, 143, EVICTED])), min_size=1, max_size=most)


def pods_of_jobs(root: Json) -> dict[str, int]:
    """Return the number of pods of each child Job of a JobSet, by the Job's name."""
    return {
        f"{one['name']}-{index}": one["template"]["spec"]["parallelism"]
        for one in root["spec"]["replicatedJobs"]
        for index in range(one["replicas"])
    }


def spec_of(root: Json, job: str) -> Json:
    """Return the JobSpec of a child Job."""
    name = job.rpartition("-")[0]
    (found,) = [one["template"]["spec"] for one in root["spec"]["replicatedJobs"] if one["name"] == name]
    return dict(found)


def failed_pod(job: str, code: int) -> Pod:
    """Return a failed pod of a child Job."""
    conditions = (Condition(type="DisruptionTarget", status="True", reason="", time=""),) if code == EVICTED else ()
    return Pod(
        namespace="ml",
        name=f"set-{job}-0-abcde",
        uid="uid",
        job=f"set-{job}",
        job_uid="uid",
        job_set="set",
        replicated_job=job.rpartition("-")[0],
        phase="Failed",
        conditions=conditions,
        exits=(Exit("main", code or KILLED, "Error", ""),),
    )


@dataclass
class Course:
    """The state of a JobSet in the model: the restarts of the set and of its Jobs, and the number of all pods started.

    `restarts`: of the whole set; `alone`: of each child Job without the others; `costly`: how many of both count
    towards maxRestarts. `retries`: failures of each child Job since it was last started.
    """

    root: Json
    restarts: int = 0
    costly: int = 0
    alone: Counter[str] = field(default_factory=Counter)
    retries: Counter[str] = field(default_factory=Counter)
    started: int = 0
    ended: bool = False

    def __post_init__(self) -> None:
        self.started = self.started or sum(pods_of_jobs(self.root).values())

    def under(self, root: Json) -> "Course":
        """Return a copy of this state with another manifest."""
        return Course(**{**deepcopy(vars(self)), "root": root})

    def fail(self, job: str, code: int) -> None:
        """Let a pod of a child Job fail."""
        if self.ended:
            return
        spec, pod = spec_of(self.root, job), failed_pod(job, code)
        matched = match((spec.get("podFailurePolicy") or {}).get("rules") or [], pod)
        action = "Count" if matched is None else matched.action
        self.retries[job] += action == "Count"
        if matched is not None and action == "FailJob":
            self.end(job, JobEnd(POD_FAILURE_POLICY, matched.message))
        elif action == "Count" and self.retries[job] > spec.get("backoffLimit", BACKOFF_LIMIT):
            self.end(job, JobEnd("BackoffLimitExceeded", "Job has reached the specified backoff limit"))
        else:
            self.started += 1

    def end(self, job: str, end: JobEnd) -> None:
        """Let a child Job fail."""
        policy = self.root["spec"].get("failurePolicy")
        index, action = rule_of_set(self.root, job.rpartition("-")[0], end)
        action = RESTART_SET if index is None else action
        costs = not action.endswith(FREE)
        spent = costs and self.costly >= ((policy or {}).get("maxRestarts") or 0)
        if policy is None or action == FAIL_SET or spent:
            self.ended = True
            return
        self.costly += costs
        again = pods_of_jobs(self.root)
        if action.removesuffix(FREE) == RESTART_SET:
            self.restarts += 1
        else:
            self.alone[job] += 1
            again = {job: again[job]}
        for one, pods in again.items():
            self.started += pods
            del self.retries[one]

    @property
    def counts(self) -> tuple[int, int, dict[str, int], bool]:
        """Return the values in the status: restarts, those that count, those of each single Job, whether it failed."""
        return self.restarts, self.costly, {job: number for job, number in self.alone.items() if number}, self.ended


def course_of(root: Json, sequence: list[Failure]) -> Course:
    """Return the state of a JobSet after a sequence of failures."""
    course = Course(root)
    for job, code in sequence:
        course.fail(job, code)
    return course


def unlimited_to(rendered: Json, original: Json) -> Json:
    """Return the original with the retries of the rendered JobSet wherever the original has none."""
    made: Any = deepcopy(original)
    for one, now in zip(made["spec"]["replicatedJobs"], rendered["spec"]["replicatedJobs"], strict=True):
        limit = now["template"]["spec"].get("backoffLimit", BACKOFF_LIMIT)
        assert limit <= one["template"]["spec"].setdefault("backoffLimit", limit) <= BACKOFF_LIMIT
    return dict(made)
