"""The figures of the curve, and what follows from them: growth by least squares, and whether a line is straight."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

DOCS: Final = Path(__file__).parents[3] / "docs" / "reference"
FIGURES: Final = DOCS / "scale.json"
RATES: Final = DOCS / "rates.json"
MEBIBYTE: Final = 2**20
# A line grows faster than linear if each further Job costs more than this many times what the Jobs before cost.
TOLERANCE: Final = 1.25
POINTS: Final = 3
WEBHOOK: Final = "webhook"
CONTROLLER: Final = "controller"


class Started(msgspec.Struct):
    """A program after its start: times in seconds from the start of its process, memory in MiB.

    `received`: bytes that it read until then.
    """

    listening: float
    ready: float
    listed: float
    memory: float
    peak: float
    cpu: float
    received: int


class Cost(msgspec.Struct):
    """What one event costs, in microseconds of CPU time and in bytes that a program receives.

    `api`: of API server and etcd together, including the write that causes the event.
    """

    controller: float
    webhook: float
    api: float
    controller_bytes: float
    webhook_bytes: float


class Look(msgspec.Struct):
    """The list of one Job's pods by label: its median and p99 in milliseconds, and its CPU time in microseconds.

    `stale`: from the cache of the API server, as a watch would have it; otherwise the newest state.
    """

    stale: bool
    p50: float
    p99: float
    api: float
    answer: int  # bytes


class Run(msgspec.Struct):
    """The figures of a cluster with a controller and a webhook, or only of their start.

    `failed`: whether every Job and pod has failed, and each Job has an Account. `rest`: cores of controller and webhook
    when nothing happens. `ratio` and `ratio_p99`: of the latencies of `/mutate` to those of a webhook that sees 100
    Jobs. `p50` and `p99`: of `/mutate` in milliseconds. `review`: CPU time of one request in microseconds. `calls`:
    requests to the API server for one disruption, by verb and resource. `event`, `job_event`: a change of a pod, and of
    a Job, that is only read. `plain`: seconds in which a client that keeps nothing reads the same pages of Jobs and
    pods; 0 if that was not measured.
    """

    jobs: int
    pods: int
    nodes: int
    namespaces: int
    failed: bool = False
    controller: Started | None = None
    webhook: Started | None = None
    rest: list[float] = []
    p50: float = 0
    p99: float = 0
    ratio: float = 0
    ratio_p99: float = 0
    review: float = 0
    disruption: Cost | None = None
    event: Cost | None = None
    job_event: Cost | None = None
    calls: dict[str, float] = {}
    looks: list[Look] = []
    plain: float = 0
    load: float = 0  # average of the machine when the run began

    @property
    def size(self) -> tuple[int, int, int, int, bool]:
        return self.jobs, self.pods, self.nodes, self.namespaces, self.failed

    def started(self, program: str) -> Started:
        """Return the start of a program of PROGRAMS; raise ValueError if it was not measured."""
        found = self.webhook if program == WEBHOOK else self.controller
        if found is None:
            raise ValueError(f"the start of the {program} was not measured")
        return found


def runs() -> list[Run]:
    """Return the runs of docs/reference/scale.json."""
    return msgspec.json.decode(FIGURES.read_bytes(), type=list[Run]) if FIGURES.exists() else []


def write(found: Sequence[Run]) -> None:
    FIGURES.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n")


def curve(found: Sequence[Run]) -> list[Run]:
    """Return the runs of the curve, by the number of Jobs: those with all figures."""
    return sorted((run for run in found if run.disruption is not None), key=lambda run: run.jobs)


class Through(msgspec.Struct):
    """Pods that are created through the API server; latencies in milliseconds.

    `cpu`: microseconds of CPU time for one pod, by program.
    """

    webhook: str
    pods: float  # a second
    p50: float
    p99: float
    cpu: dict[str, float]


class Direct(msgspec.Struct):
    """Reviews that are sent to two webhooks at a constant rate; latencies in milliseconds, from when each was due.

    `review`, `loader`: microseconds of CPU time for one review, of the webhooks and of the program that sends it.
    """

    asked: float  # a second
    answered: float  # a second
    p50: float
    p99: float
    review: float
    loader: float


class Rates(msgspec.Struct):
    """The contents of docs/reference/rates.json."""

    through: list[Through]
    direct: list[Direct]


def rates() -> Rates:
    """Return the figures of docs/reference/rates.json."""
    return msgspec.json.decode(RATES.read_bytes(), type=Rates)


class Growth(msgspec.Struct):
    """The memory of a program: MiB without any object, and bytes for each one."""

    base: float
    job: float
    pod: float
    node: float


def growth(found: Sequence[Run], program: str) -> Growth:
    """Return the memory at rest of a program as a sum over the objects, by least squares.

    The squares are of relative errors, so that a small cluster counts as much as a large one. Raise ValueError if the
    runs do not determine it: fewer than four, or Jobs, pods and nodes always in the same proportion.
    """
    started = [run for run in found if run.webhook is not None and not run.failed]
    rows = [[1.0, run.jobs, run.pods, run.nodes] for run in started]
    memory = [run.started(program).memory * MEBIBYTE for run in started]
    weighted = [[value / size for value in row] for row, size in zip(rows, memory, strict=True)]
    base, job, pod, node = least_squares(weighted, [1.0] * len(started))
    return Growth(base / MEBIBYTE, job, pod, node)


def least_squares(rows: Sequence[Sequence[float]], right: Sequence[float]) -> list[float]:
    """Return the factors by which the columns of `rows` add up to `right`, with the least sum of squared errors.

    Raise ValueError if they are not determined.
    """
    width = range(len(rows[0]))
    scale = [max(abs(row[column]) for row in rows) or 1.0 for column in width]
    scaled = [[row[column] / scale[column] for column in width] for row in rows]
    normal = [[sum(row[one] * row[other] for row in scaled) for other in width] for one in width]
    target = [sum(row[column] * value for row, value in zip(scaled, right, strict=True)) for column in width]
    return [factor / of for factor, of in zip(solved(normal, target), scale, strict=True)]


def solved(matrix: list[list[float]], right: list[float]) -> list[float]:
    """Solve linear equations by Gauss's elimination; raise ValueError if the solution is not determined."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for place in range(len(rows)):
        pivot = max(range(place, len(rows)), key=lambda row: abs(rows[row][place]))
        rows[place], rows[pivot] = rows[pivot], rows[place]
        if abs(rows[place][place]) < 1e-12:
            raise ValueError("the runs do not determine what each kind of object costs")
        for other in range(len(rows)):
            if other != place:
                factor = rows[other][place] / rows[place][place]
                rows[other] = [value - factor * taken for value, taken in zip(rows[other], rows[place], strict=True)]
    return [row[-1] / row[place] for place, row in enumerate(rows)]


def is_linear(sizes: Sequence[float], values: Sequence[float]) -> bool:
    """Return True if the last step of a curve is at most TOLERANCE times as steep as the one before, or not upwards."""
    (one, two, three), (low, middle, high) = sizes[-3:], values[-3:]
    before, after = (middle - low) / (two - one), (high - middle) / (three - two)
    # From a flat line a step may go up by as little as the noise: a tenth of the value for a tenfold number of Jobs.
    return after <= TOLERANCE * max(before, 0.1 * middle / (three - two))


LINES: Final[dict[str, Callable[[Run], float]]] = {
    "the webhook's memory at rest": lambda run: run.started(WEBHOOK).memory,
    "the controller's memory at rest": lambda run: run.started(CONTROLLER).memory,
    "the webhook's highest memory": lambda run: run.started(WEBHOOK).peak,
    "the controller's highest memory": lambda run: run.started(CONTROLLER).peak,
    "time until ready": lambda run: run.started(WEBHOOK).ready,
    "CPU of the start": lambda run: run.started(WEBHOOK).cpu,
    "time until all pods are listed, over a client that keeps nothing": lambda run: (
        run.started(WEBHOOK).listed / run.plain
    ),
    "`/mutate`, median": lambda run: run.p50,
    "the controller's CPU at rest": lambda run: run.rest[0],
    "the controller's CPU for a disruption": lambda run: run.disruption.controller if run.disruption else 0,
}


def faster_than_linear(found: Sequence[Run]) -> list[str]:
    """Return the names of the lines that grow faster than the number of Jobs, by the three largest runs."""
    of = curve(found)
    return [name for name, value in LINES.items() if not is_linear([run.jobs for run in of], [*map(value, of)])]


def table() -> str:
    """Return the table of the curve."""
    columns = (
        *("Jobs", "pods", "webhook's memory", "most", "controller's memory", "most"),
        *("ready after", "pods listed after", "plain client", "CPU of the start"),
        *("`/mutate`, median", "p99", "over 100 Jobs, median", "CPU of a request"),
        *("controller at rest", "controller, a disruption", "webhook, a disruption"),
    )
    rows = []
    for run in curve(runs()):
        webhook, controller, cost = run.started(WEBHOOK), run.started(CONTROLLER), run.disruption
        assert cost is not None
        rows.append(
            (
                *(f"{run.jobs:,}", f"{run.pods:,}", *memory_of(webhook), *memory_of(controller)),
                *(f"{webhook.ready:.1f} s", f"{webhook.listed:.1f} s", f"{run.plain:.1f} s", f"{webhook.cpu:.1f} s"),
                *(f"{run.p50:.2f} ms", f"{run.p99:.2f} ms", f"{run.ratio:.2f}", f"{run.review:.0f} µs"),
                *(f"{run.rest[0]:.3f} cores", f"{cost.controller:,.0f} µs", f"{cost.webhook:,.0f} µs"),
            )
        )
    return markdown(columns, rows)


def memory_of(started: Started) -> tuple[str, str]:
    """Return the memory of a program at rest, and the most."""
    return f"{started.memory:.0f} MiB", f"{started.peak:.0f} MiB"


def summary() -> str:
    """Return what each program needs for each object, and which lines grow faster than linear."""
    found = runs()
    needs = []
    for program in (WEBHOOK, CONTROLLER):
        grown = growth(found, program)
        needs.append(
            f"The {program} needs {grown.base:.0f} MiB, and {grown.job:,.0f} bytes for each Job, "
            f"{grown.pod:,.0f} for each pod and {grown.node:,.0f} for each node."
        )
    return f"{' '.join(needs)} {verdict(found)}\n"


def verdict(found: Sequence[Run]) -> str:
    """Return a sentence on the lines that grow faster than linear."""
    points = len(curve(found))
    if points < POINTS:
        return f"Whether a line grows faster than linear takes {POINTS} sizes of the curve; {points} are measured."
    faster = faster_than_linear(found)
    return f"Faster than linear: {', '.join(faster)}." if faster else "No line grows faster than linear."


def looks_table() -> str:
    """Return the table of look-ups by label: with all pods in 1,000 namespaces, and in one."""
    columns = ("Jobs", "pods in a namespace", "state", "median", "p99", "CPU of API server and etcd", "answer")
    rows = [
        (
            *(f"{run.jobs:,}", f"{run.pods / run.namespaces:,.0f}", "of the cache" if look.stale else "newest"),
            *(f"{look.p50:.1f} ms", f"{look.p99:.1f} ms", f"{look.api:,.0f} µs", f"{look.answer:,} bytes"),
        )
        for run in sorted(runs(), key=lambda run: (run.namespaces < run.jobs, run.pods / run.namespaces))
        for look in run.looks
    ]
    return markdown(columns, rows)


def through_table() -> str:
    """Return the table of the pods that are created through the API server."""
    columns = ("Webhook", "pods a second", "median", "p99", "CPU of a pod: API server", "etcd", "webhook", "clients")
    rows = []
    for one in rates().through:
        webhook = sum(one.cpu.get(name, 0) for name in ("yes", "webhook-0"))
        used = [one.cpu["kube-apiserver"], one.cpu["etcd"], webhook, one.cpu["clients"]]
        cpu = (f"{value:,.0f} µs" if value else "" for value in used)
        rows.append((one.webhook, f"{one.pods:,.0f}", f"{one.p50:.0f} ms", f"{one.p99:.0f} ms", *cpu))
    return markdown(columns, rows)


def direct_table() -> str:
    """Return the table of the reviews that are sent to two webhooks."""
    columns = ("asked a second", "answered", "median", "p99", "CPU of a review", "the load's own", "cores in use")
    rows = [
        (
            *(f"{one.asked:,.0f}", f"{one.answered:,.0f}", f"{one.p50:.2f} ms", f"{one.p99:.2f} ms"),
            *(f"{one.review:.0f} µs", f"{one.loader:.0f} µs"),
            f"{one.answered * (one.review + one.loader) / 1e6:.2f}",
        )
        for one in rates().direct
    ]
    return markdown(columns, rows)


def markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
