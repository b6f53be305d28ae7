"""Each criterion of `match` with each answer of `next`: one profile and one scenario for each pair that makes sense.

scenarios/test_on_failure.py plays them on the real controllers. docs/reference/on-failure.md shows them as a table.
"""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from webhook.policy.causes import need_rows
from webhook.policy.criteria import SPELT
from webhook.policy.model import Policy
from webhook.policy.parse import parse

if TYPE_CHECKING:
    from tests.cluster.kubectl import Object


@dataclass(frozen=True, slots=True)
class Ending:
    """How the container `container` of a pod ends: `code`, `reason` and `message` as the kubelet reports them.

    `code`: None if no container has run. `of_pod`: the reason of the pod itself. `evicted`: whether the pod is evicted
    instead. `times`: how many attempts end so, one after the other on the same node.
    """

    code: int | None = None
    reason: str = "Error"
    message: str = ""
    container: str = "main"
    of_pod: str = ""
    evicted: bool = False
    times: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class Criterion:
    """A `match` of a rule, and an end of a pod for which it holds."""

    name: str
    match: Object
    ending: Ending


@dataclass(frozen=True, slots=True, eq=False)
class Following:
    """A `next` of a rule, and what is true of the pod that follows."""

    name: str
    next: Object
    differs: str


CRITERIA = (
    Criterion("out-of-memory", {"cause": "OOMKilled"}, Ending(137, "OOMKilled")),
    Criterion("exit", {"cause": "ExitCode"}, Ending(143)),
    Criterion("disruption", {"cause": "Disruption"}, Ending(evicted=True)),
    Criterion("deadline", {"cause": "DeadlineExceeded"}, Ending(143, of_pod="DeadlineExceeded")),
    Criterion("other", {"cause": "Other"}, Ending(of_pod="UnexpectedAdmissionError")),
    Criterion("reason", {"reasons": ["UnexpectedAdmissionError"]}, Ending(of_pod="UnexpectedAdmissionError")),
    Criterion("exit-code", {"exitCodes": [75]}, Ending(75)),
    Criterion("container", {"containers": ["proxy"]}, Ending(143, container="proxy")),
    Criterion("same-node", {"sameNode": 2}, Ending(143, times=2)),
    Criterion("failures", {"failures": 2}, Ending(143, times=2)),
    Criterion("message", {"message": "*NCCL*"}, Ending(143, message="rank 3: NCCL error")),
)
need_rows({key for one in CRITERIA for key in one.match}, SPELT.values(), f"{__name__}: fields of Match and criteria")
FOLLOWINGS = (
    Following("retry", {"cost": "Retry"}, "it costs a retry"),
    Following("free", {"cost": "Free"}, "it costs no retry"),
    Following("fatal", {"cost": "Fatal"}, "there is none: the Job fails"),
    Following("memory", {"memory": {"factor": 2, "limit": "8Gi"}}, "it has 2Gi instead of 1Gi"),
    Following("delay", {"delay": {"initial": "3s"}}, "it starts 3 s later"),
    Following("node", {"avoid": "Node"}, "it prefers another node"),
    Following("zone", {"avoid": "Zone"}, "it prefers another zone"),
    Following("on-demand", {"placement": "OnDemand"}, "it runs on-demand"),
)


def profile_of(criterion: Criterion, following: Following) -> Object:
    """Return a profile with the rule of a pair, and one more for the same end, which must not decide."""
    other: Object = {"cost": "Retry"} if following.name != "retry" else {"avoid": "Node"}
    return {
        "placement": {"provider": "gke"},
        "disruptions": {"limit": 20},
        "retries": {"default": 5},
        "diagnostics": {"lastWords": True},
        "onFailure": [deepcopy({"match": criterion.match, "next": one}) for one in (following.next, other)],
    }


def name_of(criterion: Criterion, following: Following) -> str:
    """Return the name of the profile of a pair."""
    return f"after-{criterion.name}-{following.name}"


@cache
def refusal(criterion: Criterion, following: Following) -> str:
    """Return why a policy with the rule of a pair is refused; empty if it is accepted."""
    profiles = {"default": profile_of(criterion, following)}
    head = {"apiVersion": "retry-policy.dev/v1alpha1", "kind": "RetryPolicy"}
    found = parse(json.dumps({**head, "profiles": profiles}))  # JSON is YAML too
    return "" if isinstance(found, Policy) else "; ".join(map(str, found))


def pairs() -> tuple[tuple[Criterion, Following], ...]:
    """Return the pairs that a policy may have."""
    return tuple((one, other) for one in CRITERIA for other in FOLLOWINGS if not refusal(one, other))


def each_once() -> frozenset[str]:
    """Return the names of few pairs, in which every criterion and every answer stands: the others take minutes."""
    found: set[str] = set()
    for number, criterion in enumerate(CRITERIA):
        of_criterion = [one for one in pairs() if one[0] is criterion]
        found.add(name_of(*of_criterion[number % len(of_criterion)]))
    for following in FOLLOWINGS:
        of_following = [name_of(*one) for one in pairs() if one[1] is following]
        if found.isdisjoint(of_following):
            found.add(of_following[0])
    return frozenset(found)


def profiles() -> Object:
    """Return the profiles of all pairs by their names."""
    return {name_of(one, other): profile_of(one, other) for one, other in pairs()}
