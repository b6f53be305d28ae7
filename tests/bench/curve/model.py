"""What a cluster of 15,000 nodes needs, computed from the measured costs. Nothing here was run at that size."""

from __future__ import annotations

from typing import Final, NamedTuple

from tests.bench.curve.figures import (
    CONTROLLER,
    MEBIBYTE,
    WEBHOOK,
    Direct,
    Growth,
    Rates,
    Run,
    curve,
    growth,
    markdown,
    rates,
    runs,
)

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
    """CPU time in microseconds, and bytes that a program receives."""

    memory: dict[str, Growth]  # by program
    pod_event: float
    job_event: float
    controller: float  # a disruption, beyond the pod's event
    webhook: float
    review: float
    pod_bytes: float
    job_bytes: float
    calls: float  # of the controller, for a disruption
    ended: float  # of API server and etcd, for a disruption and what is written about it
    created: float  # of them, for a pod that is created without a webhook
    called: float  # more of them with ours


class Needs(NamedTuple):
    """What the programs need under a load: cores of the controller and of each webhook, MiB, and the rest a second."""

    reviewing: float  # cores of all webhooks together
    watching: float  # cores of each program
    counting: float  # cores of the controller for disruptions
    controller: float
    webhook: float
    memory: dict[str, float]  # by program
    traffic: float  # MiB a second to each program
    calls: float
    api: float  # cores of API servers and etcd for creating the pods alone
    calling: float  # further ones, because they call the webhook
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
        {program: growth(found, program) for program in (WEBHOOK, CONTROLLER)},
        max(event.controller, event.webhook),
        max(job_event.controller, job_event.webhook),
        disruption.controller,
        disruption.webhook,
        fastest(reached).review,
        event.webhook_bytes,
        job_event.webhook_bytes,
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


def needs(load: Load, of: Costs, webhooks: int = 2) -> Needs:
    """Return what the controller and this number of webhooks need; requests are spread over these evenly."""
    jobs_created = load.created / PODS_OF_JOB
    pod_events, job_events = EVENTS_OF_POD * load.created, EVENTS_OF_JOB * jobs_created
    watching = (pod_events * of.pod_event + job_events * of.job_event) / 1e6
    reviewing = load.reviews * of.review / 1e6
    return Needs(
        reviewing,
        watching,
        load.disrupted * of.controller / 1e6,
        watching + load.disrupted * of.controller / 1e6,
        watching + reviewing / webhooks + load.disrupted * of.webhook / 1e6,
        {program: memory_under(load, grown) for program, grown in of.memory.items()},
        (pod_events * of.pod_bytes + job_events * of.job_bytes) / MEBIBYTE,
        load.disrupted * of.calls,
        load.created * of.created / 1e6,
        load.created * of.called / 1e6,
        load.disrupted * of.ended / 1e6,
    )


def memory_under(load: Load, grown: Growth) -> float:
    """Return the MiB of a program under a load."""
    return grown.base + (load.jobs * grown.job + load.pods * grown.pod + load.nodes * grown.node) / MEBIBYTE


def shares(found: Needs) -> dict[str, float]:
    """Return how much of each bound of one process is used: above 1 it is too little.

    One process uses one core.
    """
    return {
        "the controller's core": found.controller,
        "the core of each webhook": found.webhook,
        "the memory of the manifests": max(found.memory.values()) / MEMORY,
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
        row("cores for reviews, all webhooks together", "{:.2f}", [one.reviewing for one in found]),
        row("cores for the watches, each program", "{:.2f}", [one.watching for one in found]),
        row("cores for the accounts, the controller", "{:.2f}", [one.counting for one in found]),
        row("the controller: cores", "{:.2f}", [one.controller for one in found]),
        row("each of two webhooks: cores", "{:.2f}", [one.webhook for one in found]),
        row("memory, each webhook: MiB", "{:,.0f}", [one.memory[WEBHOOK] for one in found]),
        row("memory, the controller: MiB", "{:,.0f}", [one.memory[CONTROLLER] for one in found]),
        row("watches, to each program: MiB a second", "{:,.0f}", [one.traffic for one in found]),
        row("requests of the controller to the API server a second", "{:,.1f}", [one.calls for one in found]),
        row("API servers and etcd, for creating the pods alone: cores", "{:.1f}", [one.api for one in found]),
        row("more of them, because they call the webhook: cores", "{:.1f}", [one.calling for one in found]),
        row("more of them, for the disruptions and the accounts: cores", "{:.1f}", [one.ending for one in found]),
        ("first limit", *(f"{first_limit(one)}: {max(shares(one).values()):.1f} of it" for one in found)),
    ]
    return markdown(("1,000 pods a second on 15,000 nodes", *(load.name for load in LOADS)), rows)


def verdict() -> str:
    """Return how far one core of each process goes, in a sentence or two."""
    of = costs()
    ordinary = needs(LOADS[0], of)
    pods = LOADS[0].created / max(ordinary.controller, ordinary.webhook)
    return (
        f"With a controller and two webhooks of one core each, {pods:,.0f} pods a second are possible in an ordinary "
        f"hour, and {1e6 / of.controller:,.0f} disruptions a second if nothing else happens.\n"
    )
