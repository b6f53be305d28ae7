"""Makes reports as `retry-policy report` computes them: seeded, of any size, realistic or hostile."""

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, NamedTuple

from webhook.history.record import Capacity
from webhook.insight.report import sums
from webhook.insight.report.model import (
    MOST_ATTEMPTS,
    VERSION,
    AttemptRow,
    Bucket,
    Figures,
    GroupRow,
    PlaceRow,
    Report,
    Usage,
    WorkloadRow,
)
from webhook.policy.causes import Cause, Loss

START: Final = datetime(2026, 11, 16, tzinfo=UTC)
DAYS: Final = 7
BUCKET: Final = 3 * 3600  # seconds
NAMESPACES: Final = ("ml-training", "ml-batch", "etl", "genomics", "render-farm", "ci", "risk", "search-index")
PROFILES: Final = {"ml-training": "gpu", "ml-batch": "gpu", "ci": "strict"}
STEMS: Final = ("train", "finetune", "embed", "ingest", "align", "frames", "build", "var", "reindex", "evaluate")
OWNERS: Final = ("CronJob/nightly", "Workflow/pipeline", "CronJob/hourly", "", "", "")
REASONS: Final[dict[Cause, tuple[str, ...]]] = {
    "Succeeded": ("",),
    "Disruption": ("PreemptionByScheduler", "DeletionByTaintManager", "EvictionByEvictionAPI", "TerminationByKubelet"),
    "ExitCode": ("main 1", "main 2", "main 137", "main 3"),
    "OOMKilled": ("main",),
    "DeadlineExceeded": ("",),
    "Other": ("",),
}
PRICES: Final = {"Spot": 0.36, "OnDemand": 1.0}  # of a core-hour, so that a GPU's share is in it
CAUSES: Final[tuple[Cause, ...]] = ("ExitCode", "OOMKilled", "DeadlineExceeded", "Other")
# Names that a browser or a spreadsheet could take for something else. Some are no names of Kubernetes: the page must
# not depend on who checked them.
HOSTILE: Final = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</script><script>alert(2)</script>",
    "<!--<script>",
    "javascript:alert(3)",
    "{{constructor.constructor('alert(4)')()}}",
    "__proto__",
    "constructor",
    "\u202egnp.exe",
    "a&#60;b&lt;",
    "x" * 320,
    "\u2028\u2029",
    "%3Cscript%3E&q=1#workloads",
)


class Node(NamedTuple):
    """A node, and how many of the attempts there fail for its sake."""

    name: str
    zone: str
    capacity: Capacity
    bad: float


def report(
    workloads: int = 300,
    seed: int = 1,
    *,
    nodes: int = 60,
    prices: bool = True,
    hostile: bool = False,
    most_attempts: int = 30,
    source: Literal["cluster", "history"] = "history",
) -> Report:
    """Return a report of a week; without prices all money is None; `hostile`: names are HOSTILE."""
    chance = random.Random(seed)  # noqa: S311 - the same report for the same seed
    places = [
        Node(f"spot-{zone}-{number:03}", f"zone-{zone}", "Spot", 0.6 if number == nodes // 2 + 1 else 0.0)
        if number % 3
        else Node(f"od-{zone}-{number:03}", f"zone-{zone}", "OnDemand", 0.0)
        for number, zone in ((number, "abc"[number % 3 - number // 7 % 3]) for number in range(max(nodes, 3)))
    ]
    if hostile:
        places = [node._replace(name=HOSTILE[number % len(HOSTILE)]) for number, node in enumerate(places)]
    rows = [
        workload(chance, number, places, prices=prices, hostile=hostile, most=most_attempts)
        for number in range(workloads)
    ]
    listed = [(row, one) for row in rows for one in row.attempts]
    rows.sort(key=lambda row: -(row.figures.lost.price or row.figures.lost.seconds))
    return Report(
        version=VERSION,
        written=text(START + timedelta(days=DAYS)),
        source=source,
        scope="cluster",
        since=text(START),
        until=text(START + timedelta(days=DAYS)),
        currency="USD" if prices else "",
        notes=["Attempts before 2026-11-16 are not in the records."],
        total=together(row.figures for row in rows),
        namespaces=groups(rows, lambda row: row.namespace),
        profiles=groups(rows, lambda row: row.profile),
        workloads=rows,
        nodes=places_of(listed, {node.name: node for node in places}, lambda one: one.node),
        zones=places_of(listed, {}, lambda one: one.zone),
        near_limit=[
            row.uid for row in rows if row.state == "Running" and 0 in {row.retries_left, row.disruptions_left}
        ],
        bucket=BUCKET,
        series=series([one for _, one in listed], rows, prices=prices),
    )


def empty() -> Report:
    """Return the report of a cluster in which nothing ended."""
    return report(0, nodes=0)


def workload(
    chance: random.Random, number: int, nodes: list[Node], *, prices: bool, hostile: bool, most: int
) -> WorkloadRow:
    """Return one workload whose attempts ran on nodes by chance."""
    namespace = chance.choices(NAMESPACES, weights=range(len(NAMESPACES), 0, -1))[0]
    name = f"{chance.choice(STEMS)}-{number:05}"
    if hostile:
        namespace, name = HOSTILE[number % len(HOSTILE)], HOSTILE[(number // 2) % len(HOSTILE)]
    scopes = chance.choices(["", "indexes", "set"], weights=[6, 2, 1])[0]
    names = {
        "": [""],
        "indexes": [str(index) for index in range(chance.randint(2, 6))],
        "set": [f"{part}/{index}" for part, count in (("leader", 1), ("workers", 3)) for index in range(count)],
    }[scopes]
    cores = float(chance.choice([1, 2, 4, 8, 16]))
    resources = {"cpu": cores, "memory": cores * chance.choice([2, 4, 8])}
    if PROFILES.get(namespace) == "gpu":
        resources["nvidia.com/gpu"] = float(chance.choice([1, 1, 2, 8]))
    is_buggy = chance.random() < 0.12
    latest = 0.97 if chance.random() < 0.06 else 0.0  # some have only begun
    created = START + timedelta(seconds=chance.uniform(latest, 0.995) * DAYS * 86400)
    length = min(chance.lognormvariate(7.4, 1.1), 86400.0)
    attempts: list[tuple[AttemptRow, Usage]] = []
    for scope in names:
        attempts += lane(chance, (name, scope, created, length), nodes, resources, is_buggy=is_buggy, prices=prices)
    rows = sorted((one for one, _ in attempts), key=lambda one: one.start or one.end)
    now = text(START + timedelta(days=DAYS))
    is_running = any(not one.end for one in rows)
    is_failed = not is_running and rows[-1].cause != "Succeeded"
    last = max(rows, key=lambda one: one.end or now)
    shown = min(MOST_ATTEMPTS, most)
    return WorkloadRow(
        namespace=namespace,
        profile=HOSTILE[number % 3] if hostile else PROFILES.get(namespace, "default"),
        kind="JobSet" if scopes == "set" else "Job",
        name=name,
        uid=f"{number:08x}-0000-4000-8000-000000000000",
        owner=chance.choice(HOSTILE if hostile else OWNERS),
        state="Running" if is_running else "Failed" if is_failed else "Complete",
        reason=chance.choice(["BackoffLimitExceeded", "PodFailurePolicy"]) if is_failed else "",
        created=text(created),
        end="" if is_running else last.end,
        retries_left=last.retries_left,
        disruptions_left=last.disruptions_left,
        figures=figures(attempts, complete=not is_running and not is_failed, failed=is_failed),
        attempts=rows[-shown:],
        attempts_not_listed=max(0, len(rows) - shown),
    )


def lane(
    chance: random.Random,
    of: tuple[str, str, datetime, float],
    nodes: list[Node],
    resources: dict[str, float],
    *,
    is_buggy: bool,
    prices: bool,
) -> list[tuple[AttemptRow, Usage]]:
    """Return the attempts of one scope, one after the other, until one succeeds or the budgets are spent."""
    name, scope, at, length = of
    end_of_time = START + timedelta(days=DAYS)
    retries, disruptions, spent, found = 3, 2, 0, []
    while True:
        node = chance.choice([one for one in nodes if one.capacity == ("Spot" if disruptions else "OnDemand")] or nodes)
        at += timedelta(seconds=chance.expovariate(1 / 90) + 10 * 2**spent)
        cause: Cause = "Succeeded"
        if is_buggy or chance.random() < node.bad:
            cause = chance.choices(CAUSES, weights=[7, 3, 1, 0.4])[0]
        elif node.capacity == "Spot" and chance.random() < 0.22:
            cause = "Disruption"
        seconds = length if cause == "Succeeded" else length * chance.uniform(0.05, 0.95)
        waits = cause == "Disruption" and chance.random() < 0.15
        start, end = at, at + timedelta(seconds=600 if waits else seconds)
        is_running = end > end_of_time
        if is_running:
            end, seconds = end_of_time, max(0.0, (end_of_time - start).total_seconds())
        if waits:
            seconds = 0.0
        settled = cause == "ExitCode" and chance.random() < 0.3
        cost: Literal["", "retry", "disruption", "fatal"] = ""
        if cause == "Disruption":
            cost, disruptions = "disruption", max(0, disruptions - 1)
        elif cause != "Succeeded":
            cost, spent = "fatal" if settled else "retry", spent + 1
        left = max(0, retries - spent)
        used = usage(node.capacity, resources, seconds, prices=prices)
        suffix = "".join(chance.choices("bcdfghjklmnpqrstvwxz2456789", k=5))
        found.append(
            (
                AttemptRow(
                    pod=f"{name}-{scope.replace('/', '-')}-{suffix}" if scope else f"{name}-{suffix}",
                    scope=scope,
                    attempt=spent,
                    node="" if waits else node.name,
                    zone="" if waits else node.zone,
                    capacity="" if waits else node.capacity,
                    placement="Spot" if node.capacity == "Spot" else "OnDemand",
                    start="" if waits else text(start),
                    end="" if is_running else text(end),
                    seconds=round(seconds, 1),
                    cause=None if is_running else cause,
                    reason="" if is_running else "SpotUnavailable" if waits else chance.choice(REASONS[cause]),
                    cost="" if is_running else cost,
                    settled=settled and not is_running,
                    rule=rule_of(cause, settled=settled) if not is_running else "",
                    retries_left=left,
                    disruptions_left=disruptions,
                    price=used.price,
                ),
                used,
            )
        )
        at = end
        if is_running or cause == "Succeeded" or settled or spent > retries:
            return found


def rule_of(cause: Cause, *, settled: bool) -> str:
    """Return what decided, in words."""
    if settled:
        return "podFailurePolicy rule 1: FailJob"
    return {"Disruption": "podFailurePolicy rule 0: Ignore", "OOMKilled": "onFailure rule 2"}.get(cause, "")


def usage(capacity: Capacity, resources: dict[str, float], seconds: float, *, prices: bool) -> Usage:
    """Return what one attempt used."""
    cores = resources["cpu"] + 20 * resources.get("nvidia.com/gpu", 0)
    return Usage(
        attempts=1,
        seconds=round(seconds, 1),
        resources={key: round(value * seconds, 1) for key, value in resources.items()},
        price=round(cores * PRICES.get(capacity, 0.0) * 0.04 * seconds / 3600, 5) if prices else None,
    )


def added(parts: Iterable[Usage]) -> Usage:
    """Return the sum of usages; no price if a part has none."""
    attempts, seconds = 0, 0.0
    prices: list[float | None] = []
    resources: dict[str, float] = defaultdict(float)
    for one in parts:
        attempts, seconds = attempts + one.attempts, seconds + one.seconds
        prices += [one.price] if one.attempts else []
        for key, value in one.resources.items():
            resources[key] += value
    known = [one for one in prices if one is not None]
    return Usage(
        attempts=attempts,
        seconds=round(seconds, 1),
        resources={key: round(value, 1) for key, value in resources.items()},
        price=round(sum(known), 5) if len(known) == len(prices) else None,
    )


def loss_of(one: AttemptRow) -> Loss | None:
    """Return what an attempt was lost to; None if it was not."""
    return None if one.cause is None or one.cause == "Succeeded" else sums.loss_of(one.cause, one.reason)


def figures(attempts: list[tuple[AttemptRow, Usage]], *, complete: bool, failed: bool) -> Figures:
    """Return the figures of one workload."""
    lost: dict[Loss, list[Usage]] = defaultdict(list)
    for one, used in attempts:
        cause = loss_of(one)
        if cause is not None:
            lost[cause].append(used)
    prices = [used.price for one, used in attempts if one.capacity == "Spot"]
    known = [one for one in prices if one is not None]
    last = attempts[-1][1]
    is_saved = bool(failed and attempts[-1][0].settled)
    return Figures(
        workloads=1,
        complete=int(complete),
        failed=int(failed),
        used=added(used for _, used in attempts),
        spot=added(used for one, used in attempts if one.capacity == "Spot"),
        on_demand=added(used for one, used in attempts if one.capacity == "OnDemand"),
        elsewhere=added(used for one, used in attempts if not one.capacity),
        lost=added(used for one, used in attempts if one.cause not in {None, "Succeeded"}),
        lost_to={cause: added(parts) for cause, parts in lost.items()},
        kept=Usage(),
        causes=dict(Counter(one.cause for one, _ in attempts if one.cause is not None)),
        saved_retries=added([last, last]) if is_saved else Usage(),
        saved_on_spot=round(sum(known) * 1.78, 5) if len(known) == len(prices) else None,
    )


def together(parts: Iterable[Figures]) -> Figures:
    """Return the figures of several groups as those of one."""
    rows = list(parts)
    causes: Counter[Cause] = Counter()
    lost: dict[Loss, list[Usage]] = defaultdict(list)
    for row in rows:
        causes.update(row.causes)
        for cause, used in row.lost_to.items():
            lost[cause].append(used)
    saved = [row.saved_on_spot for row in rows]
    known = [one for one in saved if one is not None]
    return Figures(
        workloads=sum(row.workloads for row in rows),
        complete=sum(row.complete for row in rows),
        failed=sum(row.failed for row in rows),
        used=added(row.used for row in rows),
        spot=added(row.spot for row in rows),
        on_demand=added(row.on_demand for row in rows),
        elsewhere=added(row.elsewhere for row in rows),
        lost=added(row.lost for row in rows),
        lost_to={cause: added(used) for cause, used in lost.items()},
        kept=Usage(),
        causes=dict(causes),
        saved_retries=added(row.saved_retries for row in rows),
        saved_on_spot=round(sum(known), 5) if len(known) == len(saved) else None,
    )


def groups(rows: list[WorkloadRow], key: Callable[[WorkloadRow], str]) -> list[GroupRow]:
    """Return the figures by a key."""
    found: dict[str, list[Figures]] = defaultdict(list)
    for row in rows:
        found[key(row)].append(row.figures)
    return [GroupRow(name=name, figures=together(parts)) for name, parts in found.items()]


def places_of(
    listed: list[tuple[WorkloadRow, AttemptRow]], nodes: dict[str, Node], key: Callable[[AttemptRow], str]
) -> list[PlaceRow]:
    """Return what ended at each place."""
    at: dict[str, list[tuple[WorkloadRow, AttemptRow]]] = defaultdict(list)
    for row, one in listed:
        if key(one) and one.cause is not None:
            at[key(one)].append((row, one))
    rate = sum(loss_of(one) == "Bugs" for _, one in listed) / max(1, len(listed))
    found = []
    for name, pairs in at.items():
        failing = {row.uid for row, one in pairs if loss_of(one) == "Bugs" and row.state == "Complete"}
        failures = sum(loss_of(one) == "Bugs" for _, one in pairs)
        node = nodes.get(name)
        found.append(
            PlaceRow(
                name=name,
                zone=node.zone if node else "",
                capacity=node.capacity if node else "",
                attempts=len(pairs),
                failures=failures,
                disruptions=sum(loss_of(one) == "Disruptions" for _, one in pairs),
                workloads=len({row.uid for row, _ in pairs}),
                failing=len(failing),
                expected=round(len(failing) * rate * len(pairs) / max(1, failures), 2),
                suspect=bool(nodes) and failures > 1.7 * rate * len(pairs) and len(failing) > 2,
                lost=added(
                    Usage(attempts=1, seconds=one.seconds, resources={"cpu": one.seconds * 4}, price=one.price)
                    for _, one in pairs
                    if loss_of(one)
                ),
            )
        )
    return sorted(found, key=lambda one: (not one.suspect, -(one.lost.price or one.lost.seconds)))


def series(attempts: list[AttemptRow], rows: list[WorkloadRow], *, prices: bool) -> list[Bucket]:
    """Return what ended in each part of the time."""
    cores = {one.pod: row.figures.used for row in rows for one in row.attempts}
    by: dict[int, list[tuple[AttemptRow, Usage]]] = defaultdict(list)
    for one in attempts:
        if one.end:
            whole = cores[one.pod]
            share = one.seconds / whole.seconds if whole.seconds else 0.0
            resources = {key: round(value * share, 1) for key, value in whole.resources.items()}
            used = Usage(attempts=1, seconds=one.seconds, resources=resources, price=one.price if prices else None)
            number = int((datetime.fromisoformat(one.end) - START).total_seconds() // BUCKET)
            by[number].append((one, used))
    if not by:
        return []
    found = []
    for number in range(min(by), max(by) + 1):
        ended = by.get(number, [])
        lost: dict[Loss, list[Usage]] = defaultdict(list)
        for one, used in ended:
            cause = loss_of(one)
            if cause is not None:
                lost[cause].append(used)
        found.append(
            Bucket(
                start=text(START + timedelta(seconds=number * BUCKET)),
                causes=dict(Counter(one.cause for one, _ in ended if one.cause is not None)),
                spot=added(used for one, used in ended if one.capacity == "Spot"),
                on_demand=added(used for one, used in ended if one.capacity == "OnDemand"),
                lost=added(used for one, used in ended if one.cause != "Succeeded"),
                lost_to={cause: added(used) for cause, used in lost.items()},
            )
        )
    return found


def text(time: datetime) -> str:
    """Return a time as RFC 3339 in UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")
