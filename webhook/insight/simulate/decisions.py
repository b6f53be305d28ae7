"""What a policy decides about the pods of a workload, by the functions that decide in a cluster. Pure.

A workload is described by what history shows of it (`Shape`). It is admitted as a manifest of that shape would be, and
each end of a pod is judged by `webhook/accounts/forecast.py`. Every answer is remembered: most ends are alike.
"""

from collections.abc import Sequence
from functools import cache
from math import inf
from typing import Final, NamedTuple

from webhook.accounts import counting, forecast
from webhook.accounts.account import Account
from webhook.accounts.account import Attempt as Detail
from webhook.accounts.forecast import Standing
from webhook.accounts.scopes import Scopes
from webhook.admission import engine
from webhook.admission.subject import request_to_create, subject_of
from webhook.insight.simulate.past import End
from webhook.kube import names
from webhook.objects.patch import Editor, at
from webhook.objects.problem import Json
from webhook.pods import on_failure, outcomes
from webhook.pods.on_failure import FailureState as AfterFailure
from webhook.pods.pods import Exit, Pod
from webhook.policy import costs
from webhook.policy.model import Policy, Profile
from webhook.policy.settings import NamedProfile, count
from webhook.rules.facts import Facts
from webhook.systems.job import spec as batch
from webhook.systems.job.rules import back_off, failure_policy
from webhook.systems.job_set.spec import JOB_INDEX, REPLICATED_JOB, RESTART, SET_NAME

NAME: Final = "workload"
UID: Final = "uid"
NAMESPACE: Final = "simulated"
CREATED: Final = "1970-01-01T00:00:00Z"
MOST_REMEMBERED: Final = 200_000  # answers; then all are forgotten


class ReplicatedJob(NamedTuple):
    """A replicated Job of a JobSet: its name, how many Jobs it has, and how many pods each of them has."""

    name: str
    jobs: int
    pods: int


class Shape(NamedTuple):
    """What decides about a workload, as its author wrote it, as far as history shows.

    - `retries`: None if the author named none. `per_index`: whether each index has retries of its own.
    - `max_disruptions`: the annotation of that name; None without.
    - `codes`: exit codes about which the author's own failure policy decides, each with the action.
    - `parts`: of a JobSet; empty for a Job. `independent`: whether its author says that its pods need no other one.
    - `is_timed`: whether its author says how long it takes, so that it may have a deadline.
    """

    profile: str
    containers: tuple[str, ...]
    indexed: bool = False
    completions: int | None = 1
    parallelism: int = 1
    retries: int | None = None
    per_index: bool = False
    max_disruptions: int | None = None
    codes: tuple[tuple[str, int], ...] = ()
    parts: tuple[ReplicatedJob, ...] = ()
    independent: bool = False
    is_timed: bool = False


class SpentBefore(NamedTuple):
    """What a scope has spent before a pod ends.

    - `retries`: of its Job, or restarts of its JobSet that count. `restarts`: of the JobSet in all.
    - `failures`, `ignored`: what the pod's annotations say of its index.
    - `disruptions`, `free`: of the scope.
    - `lost`: the indexes of the Job that have failed for good. `proven`: whether a pod of the Job has finished, or
      outlived those that failed.
    """

    retries: int = 0
    failures: int = 0
    ignored: int = 0
    disruptions: int = 0
    free: int = 0
    restarts: int = 0
    lost: int = 0
    proven: bool = False


class SimulatedEnd(NamedTuple):
    """What the end of a pod does.

    - `cost`: as in the account. `ends`: what it ends for good: Job, JobSet or index; empty for nothing. `why`: by
      which rule.
    - `within`: whether a disruption of another pod in `settleWithin` would explain the end, so that nothing ends.
    - `rule`: the index of the rule of `onFailure` that decides; None for none.
    - `set_action`: what the JobSet does. `suspends`: whether the ledger suspends the Job.
    - `ignored`: what the next pod's annotation says of the ends of its index that cost nothing.
    """

    cost: str
    ends: str
    why: str
    within: int
    rule: int | None
    set_action: str
    suspends: bool
    ignored: int


class AdmittedWorkload(NamedTuple):
    """A workload as admission leaves it: its Job (the first one of a set), and its JobSet.

    `refusal`: why it is denied; empty if it is not. `retries`: how many it has. `per_index`: whether each index waits
    for its own failures alone.
    """

    job: Json
    job_set: Json | None
    refusal: str
    retries: int
    per_index: bool


class Decider:
    """Decides as one policy does."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.admit = cache(self._admission)
        self.verdicts: dict[tuple[Shape, End, SpentBefore, tuple[str, ...], tuple[int, ...], str], SimulatedEnd] = {}
        self.placements: dict[tuple[Shape, SpentBefore, bool, bool], bool] = {}
        self.remembers_attempts = {
            name: any(rule.match.same_node or rule.match.failures for rule in costs.rules_of(profile))
            for name, profile in policy.profiles.items()
        }

    def _admission(self, shape: Shape) -> AdmittedWorkload:
        """Return what admission makes of a new workload of a shape."""
        root = _manifest_of(shape)
        facts = Facts(profile_name=shape.profile, defaulted=False)
        subject = subject_of(request_to_create(root), root)
        if subject is None:
            raise TypeError("the manifest of a simulated workload is of no known kind")
        engine.mutate(subject, self.policy, facts)
        problems = engine.validate(subject, self.policy, facts).found
        refusal = "; ".join(f"{problem.what}" for _, problem in problems[:1])
        job, job_set = (root, None) if not shape.parts else (_first_job(root), root)
        job.setdefault("status", {})
        for one in (job, root):
            one["metadata"]["creationTimestamp"] = CREATED
        retries = batch.retry_budget(job["spec"])
        if job_set is not None:
            retries = at(job_set, ("spec", "failurePolicy", "maxRestarts")) or 0
        return AdmittedWorkload(
            job=job,
            job_set=job_set,
            refusal=refusal,
            retries=retries,
            per_index=job["spec"].get("backoffLimitPerIndex") is not None,
        )

    def standing(self, shape: Shape, job: Json, job_set: Json | None, spent: SpentBefore, now: float = 0.0) -> Standing:
        """Return the state of a workload that has spent so much; `now`: seconds after CREATED."""
        account = Account(
            cost={"retry": spent.retries - spent.lost, "fatal": spent.lost},
            scopes=Scopes({_scope_of(shape): spent.disruptions} if spent.disruptions else None),
            free=Scopes({_scope_of(shape): spent.free} if spent.free else None),
        )
        if job_set is not None:
            status = {"restarts": spent.restarts, "restartsCountTowardsMax": spent.retries}
            job_set, job = {**job_set, "status": status}, {**job, "status": {"failed": spent.failures}}
        else:
            job = {**job, "status": {"failed": spent.retries, "succeeded": int(spent.proven)}}
        profile = NamedProfile(shape.profile, self.policy.profiles[shape.profile])
        return Standing(job=job, job_set=job_set, account=account, live=(), profile=profile, now=now)

    def decide(self, shape: Shape, end: End, spent: SpentBefore, after: AfterFailure, node: str) -> SimulatedEnd:
        """Return what an end does; `after`: the state with which the pod was created, `node`: where it ran."""
        if not self.remembers_attempts[shape.profile]:  # then no answer depends on them
            after, node = on_failure.NONE, ""
        key = (shape, end, spent, after.nodes, after.decided, node)
        found = self.verdicts.get(key)
        if found is None:
            if len(self.verdicts) >= MOST_REMEMBERED:
                self.verdicts.clear()
            found = self.verdicts[key] = self.verdict(shape, end, spent, after, node)
        return found

    def verdict(self, shape: Shape, end: End, spent: SpentBefore, after: AfterFailure, node: str) -> SimulatedEnd:
        """Ask the functions of the ledger."""
        admitted = self.admit(shape)
        standing = self.standing(shape, admitted.job, admitted.job_set, spent)
        pod = _pod_of(shape, end, spent, after, node)
        told = forecast.foretell(standing, pod)
        counted = forecast.counted(standing, pod)
        (detail,) = counted.details
        ends = told.ends or ("Job" if told.settled_within is not None else "")
        profile = self.policy.profiles[shape.profile]
        return SimulatedEnd(
            cost=told.cost,
            ends=ends,
            why=_why(told, end, profile, admitted.retries) if ends or told.suspends else "",
            within=told.settled_within or 0,
            rule=told.on_failure,
            set_action=told.set_action,
            suspends=told.suspends,
            ignored=_ignored_of_next(standing, counted.account, pod, detail) if admitted.per_index else 0,
        )

    def leaves_spot(self, shape: Shape, spent: SpentBefore, *, lacked_spot: bool, has_turned: bool = False) -> bool:
        """Return True if a new pod leaves spot nodes.

        `lacked_spot`: whether no spot node took one of the last ones; `has_turned`: whether its deadline allows none.
        """
        key = (shape, spent, lacked_spot, has_turned)
        found = self.placements.get(key)
        if found is None:
            if len(self.placements) >= MOST_REMEMBERED:
                self.placements.clear()
            now = inf if has_turned else -inf  # after, or before the last safe moment, whenever that is
            found = self.placements[key] = self.placed(shape, spent, now, lacked_spot=lacked_spot)
        return found

    def placed(self, shape: Shape, spent: SpentBefore, now: float, *, lacked_spot: bool) -> bool:
        """Ask the functions of admission."""
        admitted = self.admit(shape)
        standing = self.standing(shape, admitted.job, admitted.job_set, spent, now)
        said = dict(at(standing.job, ("spec", "template", "metadata", "annotations")) or {})
        if admitted.per_index:
            said[batch.INDEX_FAILURES] = str(spent.failures)
            if spent.ignored:
                said[batch.INDEX_IGNORED_FAILURES] = str(spent.ignored)
        reason = outcomes.SPOT_UNAVAILABLE if lacked_spot else ""
        detail = Detail(attempt=0, scope=_scope_of(shape), pod="", cause="Other", reason=reason, cost="none")
        pod = Pod(namespace=NAMESPACE, name="", uid="", job=NAME, job_uid=UID)
        failed = 0 if admitted.job_set is not None else spent.retries
        evidence = forecast.evidence_of(standing, standing.account, pod, detail, said, failed, standing.job_set)
        return forecast.placed(evidence).off_spot

    def after(  # noqa: PLR0913, PLR0917 - where all of it meets
        self, shape: Shape, end: End, spent: SpentBefore, before: AfterFailure, node: str, ended: str
    ) -> AfterFailure:
        """Return what the ended pod asks of the next one by the rules of `onFailure`; `ended` is RFC 3339."""
        rules = costs.rules_of(self.policy.profiles[shape.profile])
        if not rules:
            return on_failure.NONE
        admitted = self.admit(shape)
        pod = _pod_of(shape, end, spent, before, node, ended)
        return on_failure.after(pod, outcomes.outcome_of(pod, admitted.job, admitted.job_set), rules)


def _manifest_of(shape: Shape) -> Json:
    """Return a manifest as the author of such a workload would have written it."""
    said = {} if shape.max_disruptions is None else {names.MAX_DISRUPTIONS: str(shape.max_disruptions)}
    said |= {names.INDEPENDENT_PODS: "true"} if shape.independent else {}
    said |= {names.WORK: "1h"} if shape.is_timed else {}
    metadata: Json = {"name": NAME, "namespace": NAMESPACE, "uid": UID, **({"annotations": said} if said else {})}
    if not shape.parts:
        spec = _job_spec(shape, shape.completions, shape.parallelism, indexed=shape.indexed)
        if shape.retries is not None:
            spec["backoffLimitPerIndex" if shape.per_index else "backoffLimit"] = shape.retries
        return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}
    jobs = [
        {
            "name": part.name,
            "replicas": part.jobs,
            "template": {"metadata": {}, "spec": _job_spec(shape, part.pods, part.pods, indexed=True)},
        }
        for part in shape.parts
    ]
    policy = {} if shape.retries is None else {"failurePolicy": {"maxRestarts": shape.retries}}
    spec = {"replicatedJobs": jobs, **policy}
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata, "spec": spec}


def _job_spec(shape: Shape, completions: int | None, parallelism: int, *, indexed: bool) -> Json:
    containers = [{"name": name, "image": "program"} for name in shape.containers]
    spec: Json = {
        "parallelism": parallelism,
        "template": {"metadata": {}, "spec": {"restartPolicy": "Never", "containers": containers}},
    }
    if completions is not None:
        spec["completions"] = completions
    if indexed:
        spec["completionMode"] = "Indexed"
    if shape.codes:
        spec["podFailurePolicy"] = {
            "rules": [
                {"action": action, "onExitCodes": {"operator": "In", "values": [code]}} for action, code in shape.codes
            ]
        }
    return spec


def _first_job(job_set: Json) -> Json:
    """Return the first Job that JobSet's controller creates of an admitted set."""
    (replicated, *_) = job_set["spec"]["replicatedJobs"]
    template = replicated["template"]
    jobs = sum(one.get("replicas", 1) for one in job_set["spec"]["replicatedJobs"])
    labels = {
        SET_NAME: NAME,
        REPLICATED_JOB: replicated["name"],
        JOB_INDEX: "0",
        RESTART: "0",
        batch.JOBS_OF_SET: str(jobs),
    }
    owner = {"apiVersion": job_set["apiVersion"], "kind": "JobSet", "name": NAME, "uid": UID, "controller": True}
    metadata = {
        "name": f"{NAME}-{replicated['name']}-0",
        "namespace": NAMESPACE,
        "uid": f"{UID}-0",
        "labels": labels,
        "annotations": (template.get("metadata") or {}).get("annotations") or {},
        "ownerReferences": [owner],
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": template["spec"]}


def _scope_of(shape: Shape) -> str:
    """Return the scope of the pod that stands for all."""
    if shape.parts:
        return f"{shape.parts[0].name}-0/0"
    return "0" if shape.indexed else ""


def _pod_of(  # noqa: PLR0913, PLR0917 - where all of it meets
    shape: Shape, end: End, spent: SpentBefore, after: AfterFailure, node: str, ended: str = ""
) -> Pod:
    """Return a pod that ended so, as the ledger would have read it."""
    in_set = bool(shape.parts)
    part = shape.parts[0].name if in_set else ""
    pod = Pod(
        namespace=NAMESPACE,
        name=f"{NAME}-pod",
        uid="pod",
        job=f"{NAME}-{part}-0" if in_set else NAME,
        job_uid=f"{UID}-0" if in_set else UID,
        job_set=NAME if in_set else "",
        replicated_job=part,
        restart=spent.restarts if in_set else None,
        index="0" if in_set or shape.indexed else "",
        index_failures=spent.failures,
        index_ignored=spent.ignored,
        node=node,
        after=on_failure.written(after) if after != on_failure.NONE else "",
    )
    why = end.reason if end.cause == "OOMKilled" else "Error"
    exits = (Exit(end.container, end.code, why, ended),) if end.code else ()
    return forecast.as_ended(pod, end.cause, reason=end.reason, exits=exits, time=ended)


def _ignored_of_next(standing: Standing, account: Account, pod: Pod, detail: Detail) -> int:
    """Return what admission leaves in the next pod's count of ends of its index that cost nothing."""
    said = forecast.next_annotations(standing.job["spec"], pod, detail)
    root: Json = {"metadata": {"annotations": said}}
    evidence = forecast.evidence_of(standing, account, pod, detail, said, 0, standing.job_set)
    back_off.edit_pod(evidence, Editor(root))
    return count(root["metadata"]["annotations"].get(batch.INDEX_IGNORED_FAILURES)) or 0


def is_coupled(shape: Shape) -> bool:
    """Return True if the pods of a workload may depend on each other, as admission takes them to."""
    root = _manifest_of(shape)
    if shape.parts:
        return sum(part.jobs * part.pods for part in shape.parts) > 1
    return any(failure_policy.traits_of(job).coupled for job in batch.JOB.jobs(root))


def _why(told: forecast.Forecast, end: End, profile: Profile, retries: int) -> str:
    """Return which rule ends a workload, in words."""
    what = {
        "Disruption": "a disruption",
        "OOMKilled": "a kill for memory",
        "DeadlineExceeded": "an exceeded deadline",
        "ExitCode": f"exit code {end.code}",
    }.get(end.cause, end.reason or "another end")
    if told.reason == counting.LIMIT_EXCEEDED or told.suspends:
        what_it_does = "suspends" if told.suspends else "fails"
        return f"disruptions.onExceed {what_it_does} it after more disruptions than allowed"
    if told.reason == counting.FREE_TOO_OFTEN:
        return "it had more free restarts than allowed"
    if told.reason == counting.JOB_WIDE:
        return "so many indexes have failed, and none has finished (failurePolicy.jobWide)"
    if told.on_failure is not None and told.on_failure >= len(profile.on_failure):
        return f"{what} a second time (failurePolicy.unknownExit)"
    if told.on_failure is not None and profile.on_failure[told.on_failure].next.cost == "Fatal":
        return f"onFailure rule {told.on_failure} makes {what} fatal"
    if told.cost == "fatal" and told.action in {"", "Count"} and told.settled_within is None:
        return f"{what} after its last retry ({retries} allowed)"
    return f"{what} is not worth a retry (failurePolicy)"


def actions_seen(ends: Sequence[tuple[End, str, SimulatedEnd]]) -> tuple[tuple[str, int], ...]:
    """Return the rules of an author's own failure policy that explain costs which the policy in force does not.

    `ends`: each end with the cost that was seen, and what the policy alone decides.
    """
    action = {"retry": "Count", "free": "Ignore", "fatal": "FailJob"}
    found: dict[int, str] = {}
    for end, seen, verdict in ends:
        if (
            end.cause == "ExitCode"
            and seen in action
            and seen != verdict.cost
            and not (seen == "retry" and verdict.within)
        ):
            found.setdefault(end.code, action[seen])
    return tuple(sorted((what, code) for code, what in found.items()))[:10]
