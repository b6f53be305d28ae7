"""Measures both programs in clusters of 1,000, 10,000 and 100,000 Jobs with 1.5 pods each.

`python -m tests.bench.curve`. Only API server and etcd run: the objects are there before the API server starts.
`python -m tests.bench.curve 100000` measures that size alone, and keeps the figures of the others; `others` are the
starts that say what one pod and one node cost, and the look-ups with all pods in one namespace; `failed` is a start
where all Jobs have failed. Writes docs/reference/scale.json and draws docs/reference/scale.svg.
"""

import asyncio
import os
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from statistics import median
from typing import Final, NamedTuple

from tests.bench.curve import figures
from tests.bench.curve.figures import Cost, Look, Run, Started
from tests.bench.curve.fill import STARTED, Size, StoredPod, stored_job, stored_pod
from tests.bench.curve.picture import draw
from tests.bench.curve.stage import CONTROLLER, DISRUPTED, Program, Stage, stage
from tests.bench.peers import ask
from tests.cluster.credentials import Credentials
from webhook.kube import names
from webhook.kube.client import PAGE, Api

SIZES: Final = (1_000, 10_000, 100_000)
PODS: Final = 1.5  # of each Job
# For what one pod costs, and one node; the start of both programs is measured.
OTHERS: Final = (Size(10_000, 60_000), Size(10_000, 15_000, nodes=15_000))
ONE_NAMESPACE: Final = Size(10_000, 15_000, namespaces=1)  # for what a look-up costs if all pods are in one
ALL_FAILED: Final = Size(100_000, 150_000, failed=True)
LEAVING: Final = 180.0  # seconds after which Jobs that have ended have left the caches
BESIDE: Final = Size(100, 150)
TURNS: Final = 15  # of the two webhooks that are compared
TURN: Final = ("-connections", "1", "-duration", "300ms")
RESTING: Final = 20.0  # seconds for the CPU at rest
DISRUPTIONS: Final = 400
EVENTS: Final = 500  # as many as fit into the buffers of a connection
LOOKS: Final = 200
HEAD: Final = 500  # bytes of a page, with the metadata of the list
FOLLOWING: Final = re.compile(rb'"continue":"([^"]+)"')
AT_ONCE: Final = 8  # writes of this program
CONDITION: Final = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "TerminationByKubelet",
    "message": "the node is shutting down",
    "lastTransitionTime": STARTED,
}


def whole(size: Size) -> Run:
    """Measure a cluster with a controller and a webhook, beside a webhook that sees 100 Jobs."""
    run = begun(size)
    with stage(size) as large, stage(BESIDE) as small:
        controller = large.start_controller()
        run.controller = started(controller)
        webhook = large.start_webhook()
        run.webhook = started(webhook)
        run.plain = asyncio.run(read_plainly(large))
        small.start_controller()
        compare(run, large, small.start_webhook(), small)
        assert controller.leads
        run.rest = at_rest([controller, webhook])
        print(f"  at rest {run.rest}", flush=True)
        pair = Pair(large, controller, webhook, run.rest)
        run.event, _ = asyncio.run(pair.cost(EVENTS, touch, stopped=True))
        run.job_event, _ = asyncio.run(pair.cost(EVENTS, touch_job, stopped=True))
        run.disruption, run.calls = asyncio.run(pair.cost(DISRUPTIONS, disrupt, DISRUPTED))
        run.looks = asyncio.run(look_ups(large))
    return run


def start_alone(size: Size) -> Run:
    """Measure the start of both programs, and then, if all Jobs have failed, until these have left the caches."""
    run = begun(size)
    with stage(size) as only:
        controller, webhook = only.start_controller(), only.start_webhook()
        if size.failed:
            time.sleep(LEAVING)
        run.controller, run.webhook = started(controller), started(webhook)
    return run


def look_ups_alone(size: Size) -> Run:
    """Measure the look-ups of pods by label."""
    run = begun(size)
    with stage(size) as only:
        run.looks = asyncio.run(look_ups(only))
    return run


def begun(size: Size) -> Run:
    print(size, flush=True)
    return Run(*size, load=round(os.getloadavg()[0], 1))


def started(program: Program) -> Started:
    start = program.start
    found = Started(
        start.listening,
        start.ready,
        start.listed,
        round(program.memory, 1),
        round(program.peak, 1),
        round(program.cpu, 2),
        program.received,
    )
    print(f"  {found}", flush=True)
    return found


async def read_plainly(cluster: Stage) -> float:
    """Read all Jobs and pods in the pages of our programs, both kinds at once; return the seconds that it takes."""

    async def pages(path: str, query: dict[str, str]) -> None:
        while True:
            head = (await api.body(path, {"limit": str(PAGE), **query}, "application/json"))[:HEAD]
            following = FOLLOWING.search(head)
            if following is None:
                return
            query["continue"] = following[1].decode()

    begin = time.monotonic()
    async with await Api.connect(str(cluster.kubectl.kubeconfig)) as api:
        await asyncio.gather(pages("/apis/batch/v1/jobs", {}), pages("/api/v1/pods", {"labelSelector": names.PROFILE}))
    took = round(time.monotonic() - begin, 2)
    print(f"  a client that keeps nothing: {took} s", flush=True)
    return took


def compare(run: Run, large: Stage, beside: Program, small: Stage) -> None:
    """Ask the webhook and the one that sees 100 Jobs in turns, each for pods of its own Jobs."""
    (webhook,) = large.webhooks
    both = [
        (one, cluster.reviews(Credentials.create(cluster.folder / "recorder")))
        for one, cluster in ((webhook, large), (beside, small))
    ]
    turns, cpu = [], 0.0
    for _ in range(TURNS):
        before = webhook.cpu
        first = ask(webhook.peer, "/mutate", both[0][1], *TURN)
        cpu += webhook.cpu - before
        turns.append((first, ask(beside.peer, "/mutate", both[1][1], *TURN)))
    run.review = round(1e6 * cpu / sum(first.answers for first, _ in turns), 1)
    run.p50 = round(median(one.latency.p50 for one, _ in turns) / 1000, 3)
    run.p99 = round(median(one.latency.p99 for one, _ in turns) / 1000, 3)
    run.ratio = round(median(one.latency.p50 / other.latency.p50 for one, other in turns), 3)
    run.ratio_p99 = round(median(one.latency.p99 / other.latency.p99 for one, other in turns), 3)
    print(f"  /mutate {run.p50} ms, p99 {run.p99} ms, over 100 Jobs {run.ratio} and {run.ratio_p99}", flush=True)


def at_rest(programs: list[Program]) -> list[float]:
    """Return the cores that programs use when nothing happens."""
    before = [program.cpu for program in programs]
    time.sleep(RESTING)
    return [round((program.cpu - cpu) / RESTING, 4) for program, cpu in zip(programs, before, strict=True)]


class Pair(NamedTuple):
    """The two programs of a cluster, and the cores that they use at rest."""

    cluster: Stage
    controller: Program
    webhook: Program
    rest: list[float]

    async def cost(
        self,
        number: int,
        change: Callable[[Api, StoredPod], Awaitable[object]],
        counted: str = "",
        *,
        stopped: bool = False,
    ) -> tuple[Cost, dict[str, float]]:
        """Change this number of pods; return what one change costs, and the requests to the API server for it.

        `counted`: the controller's metric that counts the changes; empty if both programs only read them. `stopped`:
        they stand still meanwhile, and then read all changes at once, as they would at a high rate; one that comes
        alone also costs that the process wakes up. What they use at rest is subtracted.
        """
        cluster, both = self.cluster, (self.controller, self.webhook)
        calls, api_cpu, begin = requests(cluster), cluster.api_cpu, time.monotonic()
        before = [(program.cpu, program.received) for program in both]
        todo = iter(range(number))

        async def client(api: Api) -> None:
            for place in todo:
                await change(api, stored_pod(cluster.size, place % cluster.size.pods))

        for program in both if stopped else ():
            program.served.process.send_signal(signal.SIGSTOP)
        async with await Api.connect(str(cluster.kubectl.kubeconfig)) as api:
            await asyncio.gather(*(client(api) for _ in range(AT_ONCE)))
        for program in both:
            program.served.process.send_signal(signal.SIGCONT)
        if counted:
            await asyncio.to_thread(
                cluster.wait, lambda: (self.controller.metric(counted) or 0) >= number, counted, CONTROLLER
            )
        await asyncio.sleep(2)  # for what follows from the last change
        took = time.monotonic() - begin
        cpu, received = [], []
        for program, (cpu_before, received_before), resting in zip(both, before, self.rest, strict=True):
            cpu.append(round(1e6 * (program.cpu - cpu_before - resting * took) / number, 1))
            received.append(round((program.received - received_before) / number, 1))
        api_each = round(1e6 * (cluster.api_cpu - api_cpu) / number, 1)
        found = Cost(cpu[0], cpu[1], api_each, received[0], received[1])
        print(f"  {change.__name__} {number} in {took:.1f} s: {found}", flush=True)
        more = requests(cluster) - calls
        return found, {name: round(count / number, 2) for name, count in more.most_common() if count >= number / 20}


async def touch(api: Api, pod: StoredPod) -> None:
    """Change the status of a pod, as a kubelet does a few times in a pod's life."""
    await api.patch(path_of_pod(pod), [{"op": "add", "path": "/status/message", "value": "still running"}])


async def touch_job(api: Api, pod: StoredPod) -> None:
    """Change the metadata of a pod's Job."""
    path = f"/apis/batch/v1/namespaces/{pod.job.namespace}/jobs/{pod.job.name}"
    await api.patch(path, [{"op": "add", "path": "/metadata/annotations/example.test~1touched", "value": "once"}])


async def disrupt(api: Api, pod: StoredPod) -> None:
    """End a pod as a kubelet does whose node shuts down."""
    failed = {"op": "replace", "path": "/status/phase", "value": "Failed"}
    await api.patch(path_of_pod(pod), [failed, {"op": "add", "path": "/status/conditions/-", "value": CONDITION}])


def path_of_pod(pod: StoredPod) -> str:
    return f"/api/v1/namespaces/{pod.job.namespace}/pods/{pod.name}/status"


def requests(cluster: Stage) -> Counter[str]:
    """Return the number of requests that the API server has answered, by verb and resource."""
    found: Counter[str] = Counter()
    for line in cluster.kubectl.run("get", "--raw", "/metrics").stdout.splitlines():
        if line.startswith("apiserver_request_total{"):
            labels, _, value = line.rpartition(" ")
            verb, resource, subresource = (
                labels.partition(f'{label}="')[2].partition('"')[0] for label in (",verb", ",resource", ",subresource")
            )
            found[f"{verb} {resource}{'/' if subresource else ''}{subresource}"] += int(float(value))
    return found


async def look_ups(cluster: Stage) -> list[Look]:
    """List the pods of single Jobs by label, as a webhook without a cache of pods would at each admission of a pod."""
    found = []
    async with await Api.connect(str(cluster.kubectl.kubeconfig)) as api:
        for query in ({"resourceVersion": "0"}, {}):
            times, answer, before = [], 0, cluster.api_cpu
            for number in range(LOOKS):
                owner = stored_job(cluster.size, number)
                path = f"/api/v1/namespaces/{owner.namespace}/pods"
                begin = time.perf_counter()
                by_label = {"labelSelector": f"batch.kubernetes.io/job-name={owner.name}"}
                answer += len(await api.body(path, {**query, **by_label}, "application/json"))
                times.append(1000 * (time.perf_counter() - begin))
            times.sort()
            cpu = round(1e6 * (cluster.api_cpu - before) / LOOKS, 1)
            p50, p99 = (round(times[int(share * LOOKS)], 2) for share in (0.5, 0.99))
            found.append(Look(bool(query), p50, p99, cpu, answer // LOOKS))
    print(f"  {found}", flush=True)
    return found


def main(chosen: list[str]) -> None:
    made: dict[str, list[tuple[Size, Callable[[Size], Run]]]] = {
        str(jobs): [(Size(jobs, int(PODS * jobs)), whole)] for jobs in SIZES
    }
    made["failed"] = [(ALL_FAILED, start_alone)]
    made["others"] = [*((size, start_alone) for size in OTHERS), (ONE_NAMESPACE, look_ups_alone)]
    for name in chosen or made:
        for size, measure in made[name]:
            run = measure(size)
            figures.write([*(one for one in figures.runs() if one.size != run.size), run])
    draw(figures.runs())


if __name__ == "__main__":
    main(sys.argv[1:])
