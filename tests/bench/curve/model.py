"""What a cluster of 15,000 nodes needs, computed from the measured costs. Nothing here was run at that size."""

from __future__ import annotations

from typing import Final, NamedTuple

from tests.bench.curve.figures import MEBIBYTE, Direct, Growth, Rates, Run, curve, growth, markdown, rates, runs

# Created, bound, started, running, ended, counted by the Job controller, deleted.
EVENTS_OF_POD: Final = 7
# Created, started, ready, a pod ended, the pod counted, complete, deleted.
EVENTS_OF_JOB: Final = 7
REVIEWS_OF_JOB: Final = 2  # /mutate and /validate, each taken to cost as much as that of a pod
PODS_OF_JOB: Final = 1.5
MEMORY: Final = 512.0  # MiB, the limit in the manifests
SLOWEST: Final = 10.0  # ms, the p99 up to which a rate counts as reached


class Load(NamedTuple):
    """What happens in a cluster; `pods` exist at a time; `created` and `disrupted` are pods a second."""

    name: str
    nodes: int
    pods: int
    created: float
    disrupted: float

    @property
    def jobs(self) -> float:
        """Jobs at a time."""
        return self.pods / PODS_OF_JOB

    @property
    def reviews(self) -> float:
        """Reviews a second."""
        return self.created * (1 + REVIEWS_OF_JOB / PODS_OF_JOB)


NODES: Final = 15_000
PODS: Final = 150_000
# 19 of 1,000 nodes a day have to be repaired, and 5 % of all nodes are reclaimed in an hour, each with its pods.
ORDINARY: Final = PODS * (19 / 1000 / 86_400 + 0.05 / 3600)
LOADS: Final = (
    Load("an ordinary hour", NODES, PODS, 1000, ORDINARY),
    Load("a third of the nodes reclaimed in 100 s", NODES, PODS, 1000, PODS / 3 / 100),
)


class Costs(NamedTuple):
    """CPU time in microseconds, and bytes that a replica receives."""

    memory: Growth
    pod_event: float
    job_event: float
    leader: float  # a disruption, beyond the pod's event
    follower: float
    review: float
    pod_bytes: float
    job_bytes: float
    calls: float  # of the leader, for a disruption
    ended: float  # of API server and etcd, for a disruption and what is written about it
    created: float  # of them, for a pod that is created without a webhook
    called: float  # more of them with ours


class Needs(NamedTuple):
    """What replicas need under a load: cores of the leader and of another replica, MiB, and the rest a second."""

    reviewing: float  # cores of all replicas together
    watching: float  # cores of each replica
    leading: float  # cores of the leader for disruptions
    leader: float
    follower: float
    memory: float
    traffic: float  # MiB a second to each replica
    calls: float
    api: float  # cores of API servers and etcd for creating the pods alone
    webhook: float  # further ones, because they call the webhook
    ending: float  # further ones, for the disruptions and what is written about them


def costs() -> Costs:
    """Return the measured costs: those of the largest cluster of the curve."""
    return measured(runs(), rates())


def measured(found: list[Run], reached: Rates) -> Costs:
    """Return the costs that follow from figures."""
    largest = curve(found)[-1]
    event, job_event, disruption = largest.event, largest.job_event, largest.disruption
    assert event is not None
    assert job_event is not None
    assert disruption is not None
    cpu = {one.webhook: sum(one.cpu.get(name, 0.0) for name in ("kube-apiserver", "etcd")) for one in reached.through}
    return Costs(
        growth(found),
        max(event.leader, event.follower),
        max(job_event.leader, job_event.follower),
        disruption.leader,
        disruption.follower,
        fastest(reached).review,
        event.follower_bytes,
        job_event.follower_bytes,
        # The write that ends the pod is the bench's own.
        sum(count for name, count in largest.calls.items() if name != "PATCH pods/status"),
        disruption.api,
        cpu["none"],
        cpu["this one"] - cpu["none"],
    )


def fastest(reached: Rates) -> Direct:
    """Return the highest rate that was reached with a p99 within SLOWEST; the lowest rate if none was."""
    good = [one for one in reached.direct if one.p99 <= SLOWEST and one.answered >= 0.99 * one.asked]
    return max(good, key=lambda one: one.asked) if good else min(reached.direct, key=lambda one: one.asked)


def needs(load: Load, of: Costs, replicas: int = 2) -> Needs:
    """Return what this number of replicas needs; requests are spread over them evenly."""
    jobs_created = load.created / PODS_OF_JOB
    pod_events, job_events = EVENTS_OF_POD * load.created, EVENTS_OF_JOB * jobs_created
    watching = (pod_events * of.pod_event + job_events * of.job_event) / 1e6
    reviewing = load.reviews * of.review / 1e6
    each = watching + reviewing / replicas
    memory = of.memory.base * MEBIBYTE + load.jobs * of.memory.job + load.pods * of.memory.pod
    memory += load.nodes * of.memory.node
    return Needs(
        reviewing,
        watching,
        load.disrupted * of.leader / 1e6,
        each + load.disrupted * of.leader / 1e6,
        each + load.disrupted * of.follower / 1e6,
        memory / MEBIBYTE,
        (pod_events * of.pod_bytes + job_events * of.job_bytes) / MEBIBYTE,
        load.disrupted * of.calls,
        load.created * of.created / 1e6,
        load.created * of.called / 1e6,
        load.disrupted * of.ended / 1e6,
    )


def shares(found: Needs) -> dict[str, float]:
    """Return how much of each bound of one replica is used: above 1 it is too little.

    One process uses one core.
    """
    return {
        "the leader's core": found.leader,
        "the core of another replica": found.follower,
        "the memory of the manifests": found.memory / MEMORY,
    }


def first_limit(found: Needs) -> str:
    """Return the bound of which most is used."""
    used = shares(found)
    return max(used, key=lambda name: used[name])


def table() -> str:
    """Return the table of the model."""
    of = costs()
    found = [needs(load, of) for load in LOADS]

    def row(what: str, form: str, values: list[float]) -> tuple[str, ...]:
        return (what, *(form.format(value) for value in values))

    rows = [
        row("pods disrupted a second", "{:,.1f}", [load.disrupted for load in LOADS]),
        row("reviews a second", "{:,.0f}", [load.reviews for load in LOADS]),
        row("cores for reviews, all replicas together", "{:.2f}", [one.reviewing for one in found]),
        row("cores for the watches, each replica", "{:.2f}", [one.watching for one in found]),
        row("cores for the accounts, the leader", "{:.2f}", [one.leading for one in found]),
        row("leader, of two replicas: cores", "{:.2f}", [one.leader for one in found]),
        row("the other replica: cores", "{:.2f}", [one.follower for one in found]),
        row("memory, each replica: MiB", "{:,.0f}", [one.memory for one in found]),
        row("watches, to each replica: MiB a second", "{:,.0f}", [one.traffic for one in found]),
        row("requests of the leader to the API server a second", "{:,.1f}", [one.calls for one in found]),
        row("API servers and etcd, for creating the pods alone: cores", "{:.1f}", [one.api for one in found]),
        row("more of them, because they call the webhook: cores", "{:.1f}", [one.webhook for one in found]),
        row("more of them, for the disruptions and the accounts: cores", "{:.1f}", [one.ending for one in found]),
        ("first limit", *(f"{first_limit(one)}: {max(shares(one).values()):.1f} of it" for one in found)),
    ]
    return markdown(("1,000 pods a second on 15,000 nodes", *(load.name for load in LOADS)), rows)


def verdict() -> str:
    """Return how far one core of a replica goes, in a sentence or two."""
    of = costs()
    ordinary = needs(LOADS[0], of)
    pods = LOADS[0].created / max(ordinary.leader, ordinary.follower)
    return (
        f"With two replicas of one core each, {pods:,.0f} pods a second are possible in an ordinary hour, and "
        f"{1e6 / of.leader:,.0f} disruptions a second if nothing else happens.\n"
    )
