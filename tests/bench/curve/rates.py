"""Measures how many pods a second are admitted, through an API server and directly.

In a cluster of 10,000 Jobs. Through the API server: pods are created by many clients, without a webhook, with one in Go
that says yes, and with ours. Directly: reviews of pods of these Jobs are sent to two webhooks at constant rates.
`python -m tests.bench.curve.rates` takes three minutes, and writes docs/reference/rates.json.
"""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Final

import msgspec

from tests.awaiting import until
from tests.bench import reviews, stalls
from tests.bench.asking import cpu_seconds
from tests.bench.beside import is_open
from tests.bench.curve.figures import RATES, Direct, Rates, Through
from tests.bench.curve.fill import Size, stored_job
from tests.bench.curve.stage import Stage, stage
from tests.bench.peers import Peers, Seen, as_admin, ask
from tests.cluster.installation import BASE, built, pointed_at
from webhook.kube import names
from webhook.objects.problem import Json

SIZE: Final = Size(10_000, 15_000)
PODS_CREATED: Final = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
VARIABLES: Final = 19
TURNS: Final = 5
CLIENTS: Final = 64
MANY: Final = 100_000  # pods of a Job at a time, so that no created pod replaces one that has ended
TURN: Final = ("-duration", "3s", "-status", "201", "-connections", str(CLIENTS))
# As many idle connections as an API server keeps to a webhook.
CONNECTIONS: Final = 25
ASKED: Final = (500, 1000, 2000, 3000, 4000, 5000)  # reviews a second of both webhooks together
LOAD: Final = "8s"


def through_the_api_server(cluster: Stage, peers: Peers) -> list[Through]:
    """Create pods in turns in three namespaces: without a webhook, with one that says yes, with ours."""
    (webhook,) = cluster.webhooks
    yes = peers.yes("yes")
    until(lambda: is_open(yes.address))
    ours = stored_job(cluster.size, 0)
    namespaces = {"none": "rates-none", "says yes": "rates-yes", "this one": ours.namespace}
    for namespace in ("rates-none", "rates-yes"):
        cluster.kubectl.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    url = f"https://{yes.address}/"
    cluster.kubectl.apply(reviews.webhook("rates-yes", url, peers.credentials, ["rates-yes"], PODS_CREATED))
    for manifest in built(cluster.kubectl, BASE):
        if "webhooks" in manifest:
            cluster.kubectl.apply(pointed_at(f"https://{webhook.peer.address}", manifest))
    owner = reviews.job("many-pods", VARIABLES)
    owner["spec"] |= {"completions": MANY, "parallelism": MANY}
    pod = reviews.pod_of(cluster.kubectl.create(owner, f"--namespace={ours.namespace}"), VARIABLES)
    until(lambda: is_placed(cluster, pod, ours.namespace))
    body = cluster.folder / "pod.json"
    body.write_bytes(msgspec.json.encode(pod))
    api, credentials = as_admin(cluster.kubectl, cluster.folder)
    seen: dict[str, list[tuple[Seen, dict[str, float]]]] = {name: [] for name in namespaces}
    for _ in range(TURNS):
        for name, namespace in namespaces.items():
            before = cpu(cluster)
            turn = ask(api, f"/api/v1/namespaces/{namespace}/pods", body, *credentials, *TURN)
            seen[name].append((turn, {one: used - before[one] for one, used in cpu(cluster).items()}))
    return [through(name, turns) for name, turns in seen.items()]


def is_placed(cluster: Stage, pod: Json, namespace: str) -> bool:
    root = cluster.kubectl.create(pod, "--dry-run=server", f"--namespace={namespace}")
    return names.PLACEMENT in root["metadata"].get("annotations", {})


def cpu(cluster: Stage) -> dict[str, float]:
    """Return the CPU seconds that each program has used."""
    return {name: cpu_seconds(process.pid) for name, process in cluster.processes.running.items()}


def through(name: str, turns: list[tuple[Seen, dict[str, float]]]) -> Through:
    pods = sum(turn.answers for turn, _ in turns)
    used = {program: sum(cpu[program] for _, cpu in turns) for program in turns[0][1]}
    used["clients"] = sum(turn.cpu for turn, _ in turns)
    return Through(
        name,
        round(median(turn.per_second for turn, _ in turns), 1),
        round(median(turn.latency.p50 for turn, _ in turns) / 1000, 2),
        round(median(turn.latency.p99 for turn, _ in turns) / 1000, 2),
        {program: round(1e6 * seconds / pods) for program, seconds in used.items() if 1e6 * seconds / pods >= 1},
    )


def direct(cluster: Stage, folder: Path, rate: int) -> Direct:
    """Send reviews to two webhooks at a constant rate, half of it to each.

    All of them run at real-time priority, so that what else the machine does makes no review wait.
    """
    both = cluster.webhooks
    options = ("-connections", str(CONNECTIONS), "-duration", LOAD, "-rate", str(rate / len(both)))
    before = sum(webhook.cpu for webhook in both)
    with ThreadPoolExecutor(len(both)) as pool, stalls.in_real_time([webhook.pid for webhook in both]):
        loads = [
            pool.submit(ask, webhook.peer, "/mutate", folder, *options, before=stalls.at_real_time) for webhook in both
        ]
        runs = [load.result() for load in loads]
    answers, used = sum(run.answers for run in runs), sum(webhook.cpu for webhook in both) - before
    found = Direct(
        rate,
        round(sum(run.per_second for run in runs)),
        round(max(run.latency.p50 for run in runs) / 1000, 2),
        round(max(run.latency.p99 for run in runs) / 1000, 2),
        round(1e6 * used / answers),
        round(1e6 * sum(run.cpu for run in runs) / answers),
    )
    print(found, flush=True)
    return found


def main() -> None:
    with stage(SIZE) as cluster:
        cluster.start_controller()
        cluster.start_webhook()
        peers = Peers(cluster.processes, cluster.folder)
        folder = cluster.reviews(peers.credentials)
        cluster.start_webhook()
        found = [direct(cluster, folder, rate) for rate in ASKED]
        cluster.processes.running.pop("webhook-1").kill()
        cluster.webhooks.pop()
        created = through_the_api_server(cluster, peers)
        for one in created:
            print(one, flush=True)
    RATES.write_bytes(msgspec.json.format(msgspec.json.encode(Rates(created, found)), indent=1) + b"\n")


if __name__ == "__main__":
    main()
