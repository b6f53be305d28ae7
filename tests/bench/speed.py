"""How fast the server is, as ratios to others that are measured beside it: `make bench`, a quarter of an hour.

Everything is asked in turns, round after round, so that what else happens on the machine happens to all of them. Prints
one table and writes docs/reference/performance.json.
"""

import base64
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from statistics import median
from typing import Final

import msgspec
import yaml
from rich.console import Console
from rich.table import Table

from tests.awaiting import until
from tests.bench import reviews, stalls
from tests.bench.asking import resident
from tests.bench.beside import OURS, OUTSIDE, Asked, Stage, is_open
from tests.bench.peers import Peer, Seen, as_admin, ask
from tests.cluster import control_plane, installation
from tests.cluster.control_plane import HOST
from tests.cluster.processes import Processes
from tests.served import Served, serving
from tools import generate
from tools.generate.figures import MEASURED
from webhook.kube import names
from webhook.objects.problem import Json

CEL_POLICY: Final = Path(__file__).with_name("placement-in-cel.yaml")
ROUNDS: Final = 5
RUN: Final = ("-duration", "500ms")
TURNS: Final = 20  # each short: what disturbs the machine lasts for seconds, and is to hit all that are compared
AT_ONCE: Final = 16
PODS_CREATED: Final = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
# Without rich, a tool of the developers, which structlog imports where it finds it.
WITHOUT_RICH: Final = "import sys; sys.modules['rich'] = None; from webhook.cli.main import main; main()"
AS_INSTALLED: Final = (sys.executable, "-c", WITHOUT_RICH)
REQUESTS: Final = 100_000


class Row(msgspec.Struct):
    """One line of the table: ours and the other's median, and the median, least and greatest ratio of the rounds."""

    what: str
    ours: float
    other: float
    unit: str
    ratio: float
    least: float
    greatest: float
    bound: str = ""  # ">= 4" or "<= 1.1"; empty where nothing is wanted

    @property
    def holds(self) -> bool:
        if not self.bound:
            return True
        sign, number = self.bound.split()
        return self.ratio >= float(number) if sign == ">=" else self.ratio <= float(number)


def row(what: str, ours: list[float], other: list[float], unit: str, bound: str = "") -> Row:
    ratios = sorted(mine / theirs for mine, theirs in zip(ours, other, strict=True))
    return Row(what, median(ours), median(other), unit, median(ratios), ratios[0], ratios[-1], bound)


def in_turns(all_of_them: dict[str, Asked], *options: str) -> dict[str, list[Seen]]:
    seen: dict[str, list[Seen]] = {name: [] for name in all_of_them}
    for _ in range(TURNS):
        for name, one in all_of_them.items():
            seen[name].append(one.run(*options))
    return seen


class Bench(Stage):
    """What is measured."""

    def throughput(self) -> list[Row]:
        rows, per_byte = [], {}
        for name, body in self.bodies.items():
            ours, echo = self.against_echo(name)
            who = {"ours": ours, "echo": echo}
            if name == "6 KB pod":
                who["yes"] = Asked(self.yes, "/", body)
            if name == "6 KB pod of a JobSet":
                who["JobSet"] = Asked(self.job_set, "/mutate--v1-pod", body)
            seen = {one: [run.per_second for run in runs] for one, runs in in_turns(who, *RUN).items()}
            size = body.stat().st_size
            per_byte[name] = [1e9 / rate / size for rate in seen["ours"]]
            bound = ">= 0.25" if name == "6 KB pod" else ""
            rows.append(row(f"{name} ({size:,} bytes), over the echo", seen["ours"], seen["echo"], "/s", bound))
            if "yes" in who:
                rows.append(row(f"{name}, over a Go webhook that says yes", seen["ours"], seen["yes"], "/s"))
            if "JobSet" in who:
                rows.append(row(f"{name}, over JobSet's webhook", seen["ours"], seen["JobSet"], "/s", ">= 2.5"))
        rows += [
            row(f"{name}: time per byte over the 6 KB pod's", per_byte[name], per_byte["6 KB pod"], "ns", "<= 1")
            for name in ("60 KB pod", "200 KB JobSet")
        ]
        return rows

    def steady(self) -> list[Row]:
        """Ask both at once at a constant rate, a minute in each round.

        A virtual machine stands still for longer than any of them pauses. So both, and their loads, run at real-time
        priority, all else that was started is stopped meanwhile, and what a request waited while a core stood still is
        not its server's pause.
        """
        ours, echo = self.against_echo("6 KB pod")
        seen: dict[str, list[Seen]] = {"ours": [], "echo": []}
        paused: dict[str, list[float]] = {"ours": [], "echo": []}
        pids = {name: process.pid for name, process in self.processes.running.items()}
        servers = [pids.pop(name) for name in (installation.SERVER, "echo")]
        others = list(pids.values())
        options = ("-duration", "60s", "-rate", "500", "-slow", "2ms")
        with ThreadPoolExecutor() as pool, stalls.in_real_time(servers):
            for _ in range(ROUNDS):
                with stalls.nobody_else(others), stalls.watched() as found:
                    both = [pool.submit(one.run, *options, before=stalls.at_real_time) for one in (ours, echo)]
                    runs = [future.result() for future in both]
                for name, run in zip(seen, runs, strict=True):
                    seen[name].append(run)
                    paused[name].append(max(stalls.without(found, (due, due + took)) for due, took in run.slow) * 1000)
        p99 = {name: [run.latency.p99 / 1000 for run in runs] for name, runs in seen.items()}
        longest = {name: [run.latency.max / 1000 for run in runs] for name, runs in seen.items()}
        return [
            row("p99 at 500/s", p99["ours"], p99["echo"], "ms", "<= 1.5"),
            row("longest wait in each of five minutes at 500/s", longest["ours"], longest["echo"], "ms"),
            row("longest pause, without those of the machine", paused["ours"], paused["echo"], "ms", "<= 1"),
        ]

    def through_the_api_server(self) -> list[Row]:
        arranged = self.arranged()
        rows = []
        for at_once in (1, 16, 64):
            options = ("-connections", str(at_once), "-status", "201", "-duration", "750ms")
            seen = in_turns(arranged, *options)
            middle = {name: [run.latency.p50 / 1000 for run in runs] for name, runs in seen.items()}
            bounds = {"bench-patch": "<= 1.05", "bench-cel": "<= 1.15" if at_once == 1 else "<= 1"}
            told = {
                OUTSIDE: "no webhook",
                "bench-yes": "a Go webhook that says yes",
                "bench-patch": "a Go webhook with the same patch",
                "bench-cel": "the same in CEL",
            }
            for namespace, other in told.items():
                bound = bounds.get(namespace, "") if at_once <= AT_ONCE else ""
                what = f"create, {at_once} at a time, p50 over {other}"
                rows.append(row(what, middle[OURS], middle[namespace], "ms", bound))
        return rows

    def arranged(self) -> dict[str, Asked]:
        """Return a dry-run create in each namespace, each of which has its own admission."""
        patch = msgspec.json.decode(self.answers["small pod"])["response"]["patch"]
        with_patch = self.peers.yes("patch", base64.b64decode(patch))
        for namespace, peer in (("bench-yes", self.yes), ("bench-patch", with_patch)):
            url, credentials = f"https://{peer.address}/", self.peers.credentials
            self.kubectl.apply(reviews.webhook(namespace, url, credentials, [namespace], PODS_CREATED))
        for manifest in yaml.safe_load_all(CEL_POLICY.read_text()):
            self.kubectl.apply(manifest)
        bodies = {}
        for namespace, owner in self.owners.items():
            bodies[namespace] = self.folder / f"{namespace}.json"
            bodies[namespace].write_bytes(msgspec.json.encode(reviews.pod_of(owner, 1)))
            patched = namespace in {"bench-patch", "bench-cel", OURS}
            until(lambda: self.is_placed(namespace, owner) is patched)  # noqa: B023 - called at once
        api, options = as_admin(self.kubectl, self.folder)
        path = "/api/v1/namespaces/{}/pods?dryRun=All"
        return {name: Asked(api, path.format(name), body, options) for name, body in bodies.items()}

    def is_placed(self, namespace: str, owner: Json) -> bool:
        root = self.kubectl.create(reviews.pod_of(owner, 1), "--dry-run=server", f"--namespace={namespace}")
        return names.PLACEMENT in root["metadata"].get("annotations", {})

    def memory(self) -> list[Row]:
        """Ask a server of its own each time, and look at what it has then."""
        found = []
        for how, kubeconfig, bound in (("without an API", None, 64), ("with an API", self.kubectl.kubeconfig, 80)):
            with self.own_server(kubeconfig) as served:
                answers = 0
                while answers < REQUESTS:
                    peer = Peer.told(served.addresses)
                    answers += ask(peer, "/mutate", self.bodies["6 KB pod"], "-duration", "5s").answers
                what = f"memory after {REQUESTS:,} requests, {how}, over {bound} MiB"
                found.append(row(what, [resident(served.process.pid)], [float(bound)], "MiB", "<= 1"))
        return found

    def starts(self) -> list[Row]:
        certificate, key = self.peers.credentials.server("start", [HOST])
        took: dict[str, list[float]] = {"ours": [], "bare": []}
        for _ in range(ROUNDS):
            begin = time.monotonic()
            with self.own_server(self.kubectl.kubeconfig):
                took["ours"].append(time.monotonic() - begin)
            (port,) = control_plane.free_ports(1)
            address = f"-address={HOST}:{port}"
            command = [sys.executable, "-m", "tests.bench.echo", str(self.folder / "answers"), address]
            begin = time.monotonic()
            process = subprocess.Popen([*command, f"-certificate={certificate}", f"-key={key}"])
            while not is_open(f"{HOST}:{port}"):
                time.sleep(0.005)
            took["bare"].append(time.monotonic() - begin)
            process.kill()
            process.wait()
        more = [mine - bare for mine, bare in zip(took["ours"], took["bare"], strict=True)]
        return [row("start to ready, beyond a bare aiohttp start", more, [1.0] * ROUNDS, "s", "<= 1")]

    @contextmanager
    def own_server(self, kubeconfig: Path | None) -> Iterator[Served]:
        """Start a server beside the installed one; yield it once it is ready."""
        policy = self.folder / "placing.yaml"
        policy.write_text(PLACING)
        options = [f"--policy={policy}", *([] if kubeconfig is None else [f"--kubeconfig={kubeconfig}"])]
        with serving(self.folder, *options, program=AS_INSTALLED) as served:
            while served.get("/readyz").status != HTTPStatus.OK:
                time.sleep(0.005)
            yield served

    def check(self) -> list[Row]:
        file = self.folder / "check.yaml"
        file.write_text(yaml.safe_dump(reviews.job("checked")))
        more = []
        for _ in range(3 * ROUNDS):
            ours = seconds_of([*AS_INSTALLED, "check", "-f", str(file)])
            more.append(ours - seconds_of([sys.executable, "-c", "pass"]))
        return [row("retry-policy check, beyond python -c pass", more, [0.25] * len(more), "s", "<= 1")]


PLACING: Final = """
apiVersion: retry-policy.dev/v1alpha1
kind: RetryPolicy
profiles:
  default: {placement: {provider: gke, spot: Require}}
  require: {placement: {provider: gke, spot: Require}}
"""


def seconds_of(command: list[str]) -> float:
    begin = time.monotonic()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.monotonic() - begin


def table(rows: list[Row]) -> Table:
    shown = Table("what", "ours", "other", "ratio", "spread", "bound", "holds")
    for one in rows:
        shown.add_row(
            one.what,
            f"{one.ours:,.4g} {one.unit}",
            f"{one.other:,.4g} {one.unit}",
            f"{one.ratio:.2f}",
            f"{one.least:.2f} to {one.greatest:.2f}",
            one.bound,
            "yes" if one.holds else "NO",
        )
    return shown


def main(chosen: list[str]) -> None:
    console = Console(width=160)
    with tempfile.TemporaryDirectory(prefix="retry-policy-speed-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        processes = Processes(folder / "logs")
        processes.logs.mkdir()
        try:
            bench = Bench(folder, processes)
            parts: dict[str, Callable[[], list[Row]]] = {
                "throughput": bench.throughput,
                "steady": bench.steady,
                "api": bench.through_the_api_server,
                "starts": bench.starts,
                "check": bench.check,
                "memory": bench.memory,
            }
            rows = []
            for part in chosen or parts:
                rows += (found := parts[part]())
                console.print(table(found))
        finally:
            processes.stop()
    if not chosen:
        MEASURED.write_bytes(msgspec.json.format(msgspec.json.encode(rows)) + b"\n")
        generate.write()
        console.print(table(rows))


if __name__ == "__main__":
    main(sys.argv[1:])
