"""Compares what happened to a Job with what its scenario must come to: is anything stuck, done twice or too early?"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, get_args

from tests.bench import kubelet
from tests.bench.leaders.scenarios import GIBIBYTE
from tests.cluster.objects import ACCOUNT, condition
from webhook.accounts.stored import account_in
from webhook.pods import outcomes, pods
from webhook.policy.attempt_costs import AttemptCost
from webhook.systems.job.spec import JOB_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.bench.leaders.scenarios import Scenario
    from webhook.objects.problem import Json

EARLY: Final = 1.5  # seconds: the end of a container is in whole seconds
LATE: Final = 45.0  # seconds beyond a delay: the takeover, a restart, and the looks of leader and scheduler


@dataclass
class History:
    """Every pod, by uid, in the order of creation; times by uid, in seconds since any moment.

    `lifted`: when its last scheduling gate was removed. `bound`: when it got a node. `ended`: when it had ended.
    """

    pods: dict[str, Json] = field(default_factory=dict)
    lifted: dict[str, list[float]] = field(default_factory=dict)
    bound: dict[str, float] = field(default_factory=dict)
    ended: dict[str, float] = field(default_factory=dict)

    def see(self, pod: Json, now: float) -> None:
        """Record a state of a pod."""
        uid, spec = pod["metadata"]["uid"], pod["spec"]
        before = self.pods.get(uid, pod)
        if before["spec"].get("schedulingGates") and not spec.get("schedulingGates"):
            self.lifted.setdefault(uid, []).append(now)
        if spec.get("nodeName"):
            self.bound.setdefault(uid, now)
        if has_ended(pod):
            self.ended.setdefault(uid, now)
        if not has_ended(before) or has_ended(pod):
            self.pods[uid] = pod

    def of(self, job: str) -> list[Json]:
        """Return the pods of a Job."""
        return [pod for pod in self.pods.values() if pod["metadata"]["labels"].get(JOB_NAME) == job]


def problems(scenario: Scenario, job: Json, history: History) -> Iterator[str]:
    """Yield what is wrong with a Job and its pods."""
    name = job["metadata"]["name"]
    mine = history.of(name)
    if not condition(job, "Complete"):
        yield f"{name} is stuck: {job['status']}"
    if (seen := tuple(word(pod, history) for pod in mine)) != scenario.pods:
        yield f"{name} had the pods {seen}, not {scenario.pods}"
    yield from wrong_account(scenario, job, mine)
    yield from wrong_delays(scenario, name, mine, history)


def word(pod: Json, history: History) -> str:
    """Return how a pod ended, its memory if it has a limit, and how often a gate was lifted."""
    found = pods.read(pod)
    ended = "succeeded" if found.phase == "Succeeded" else outcomes.outcome_of(found, None).reason or found.phase
    if outcomes.OOM in {one.reason for one in found.exits}:
        ended = outcomes.OOM
    memory, lifted = kubelet.memory_of(pod), len(history.lifted.get(found.uid, ()))
    ended += f" with {memory // GIBIBYTE} GiB" if memory else ""
    return ended + (" after a gate" if lifted == 1 else f" after {lifted} gates" if lifted else "")


def wrong_account(scenario: Scenario, job: Json, mine: list[Json]) -> Iterator[str]:
    """Yield how the account of a Job differs from what has happened."""
    name, account = job["metadata"]["name"], account_in(job.get(ACCOUNT), job)
    failed = sum(pod["status"]["phase"] == "Failed" for pod in mine)
    if account.ended != failed:
        yield f"{name}: the account has {account.ended} ended pods of {failed}"
    cost = {kind: spent for kind in get_args(AttemptCost) if (spent := account.spent(kind))}
    if cost != scenario.cost:
        yield f"{name}: the account has the costs {cost}, not {scenario.cost}"
    if account.suspending or (account.suspended and not job["spec"].get("suspend")):
        yield f"{name}: the account says that it is suspended, or about to be"
    if any(times > 1 for times in Counter(account.recent).values()):
        yield f"{name}: the account has pods twice: {account.recent}"


def wrong_delays(scenario: Scenario, name: str, mine: list[Json], history: History) -> Iterator[str]:
    """Yield the pods that were bound before their delay was over, or long after."""
    for least, before, after in zip(scenario.delays, mine, mine[1:], strict=False):
        ended, bound = history.ended.get(before["metadata"]["uid"]), history.bound.get(after["metadata"]["uid"])
        if ended is not None and bound is not None and not least - EARLY <= bound - ended <= least + LATE:
            yield f"{name}: {bound - ended:.1f} s from one pod to the next, not {least:g}"


def has_ended(root: Json) -> bool:
    """Return True if a Job or a pod has ended."""
    if root.get("kind") == "Job":
        return bool(condition(root, "Complete") or condition(root, "Failed"))
    return (root.get("status") or {}).get("phase") in {"Succeeded", "Failed"}
