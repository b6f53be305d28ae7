"""What is played while leaders are killed: the policy, a Job, how its pods end, and what must come of it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tests.bench import kubelet
from tests.bench.kubelet import End
from tests.objects import job, job_spec
from webhook.policy.model import Policy
from webhook.policy.parse import parse

if TYPE_CHECKING:
    from collections.abc import Callable

    from webhook.objects.problem import Json


GIBIBYTE: Final = 2**30
GKE: Final[Json] = {"placement": {"provider": "gke"}}
RETRIED: Final = End(143, "Error")
BUSY: Final = End(75, "Error")


@dataclass(frozen=True)
class Scenario:
    """One scenario.

    - `profile`: that of its namespace, as in a policy file.
    - `program`: for a pod and the number of its Job's pods before it, the seconds that it runs and how it ends.
    - `pods`: what must come of the pods of each Job, in the words of verdict.py. `cost`: what its account must say.
    - `delays`: the least seconds from the end of each pod to the binding of the next one, if a rule asks for them.
    """

    name: str
    profile: Json
    program: Callable[[Json, int], tuple[float, End]]
    pods: tuple[str, ...]
    cost: dict[str, int]
    resources: Json = field(default_factory=dict)
    has_spot: bool = True
    delays: tuple[float, ...] = ()

    def policy(self) -> Policy:
        found = parse(policy_file({"default": self.profile}))
        assert isinstance(found, Policy), found
        return found

    def manifest(self, number: int) -> Json:
        """Return a Job as its author would write it."""
        container = {"name": "main", "image": "example.test/main", **self.resources}
        return job(job_spec(containers=(container,)), name=f"job-{number}", namespace="ml")


def policy_file(profiles: dict[str, Json]) -> str:
    """Return a policy file with these profiles; JSON is YAML too."""
    return json.dumps({"apiVersion": "retry-policy.dev/v1alpha1", "kind": "RetryPolicy", "profiles": profiles})


def ends(*codes: End) -> Callable[[Json, int], tuple[float, End]]:
    """Return a program of which each attempt ends in its own way, after five seconds."""
    return lambda _, before: (5.0, codes[min(before, len(codes) - 1)])


def needs_memory(pod: Json, _: int) -> tuple[float, End]:
    """Return how a program ends that needs 4 GiB."""
    return 5.0, kubelet.SUCCESS if kubelet.memory_of(pod) >= 4 * GIBIBYTE else kubelet.OUT_OF_MEMORY


RETRIES: Final = Scenario(
    name="retries",
    profile=GKE,
    program=ends(RETRIED, RETRIED, kubelet.SUCCESS),
    pods=("main 143", "main 143", "succeeded"),
    cost={"retry": 2},
)
MEMORY: Final = Scenario(
    name="memory",
    profile={**GKE, "onFailure": [{"match": {"cause": "OOMKilled"}, "next": {"memory": {"limit": "64Gi"}}}]},
    program=needs_memory,
    resources={"resources": {"requests": {"memory": "1Gi"}, "limits": {"memory": "1Gi"}}},
    pods=("OOMKilled with 1 GiB", "OOMKilled with 2 GiB", "succeeded with 4 GiB"),
    cost={"retry": 2},
)
DELAY: Final = Scenario(
    name="delay",
    profile={
        **GKE,
        "disruptions": {"limit": 3},  # bounds what is free too
        "onFailure": [{"match": {"exitCodes": [75]}, "next": {"cost": "Free", "delay": {"initial": "20s"}}}],
    },
    program=ends(BUSY, BUSY, kubelet.SUCCESS),
    pods=("main 75", "main 75 after a gate", "succeeded after a gate"),
    cost={"free": 2},
    delays=(20, 40),
)
SPOT_WAIT: Final = Scenario(
    name="spotWait",
    profile={
        "placement": {"provider": "gke", "spot": "Require", "spotWait": "20s"},
        "disruptions": {"limit": 3},  # more than there are: only why the last pod ended makes the next one leave spot
    },
    program=ends(kubelet.SUCCESS),
    has_spot=False,
    pods=("SpotUnavailable", "succeeded"),
    cost={"disruption": 1},
)
SUSPENSION: Final = Scenario(
    name="suspension",
    profile={**GKE, "disruptions": {"limit": 1, "onExceed": "Suspend"}},
    program=ends(kubelet.EVICTED, kubelet.EVICTED, kubelet.SUCCESS),
    pods=("TerminationByKubelet", "TerminationByKubelet", "succeeded"),
    cost={"disruption": 2},
)
SCENARIOS: Final = {one.name: one for one in (RETRIES, MEMORY, DELAY, SPOT_WAIT)}
VIRTUAL: Final = {**SCENARIOS, SUSPENSION.name: SUSPENSION}  # somebody has to resume its Job
