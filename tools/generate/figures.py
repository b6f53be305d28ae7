"""What the pages about performance say, from the results of `make bench` and of `tests.bench.curve.rates`."""

from pathlib import Path
from typing import Any, Final

import msgspec

from tests.bench.curve.figures import markdown, rates

MEASURED: Final = Path(__file__).parents[2] / "docs" / "reference" / "performance.json"
RATE: Final = 1_000  # pods a second
NONE: Final = "-"
SHOWN: Final = 1_000  # Jobs at once, at least


def table() -> str:
    """Return a table of each figure with the one that was measured beside it."""
    lines = ["| What | Ours | The other | Ratio | of the rounds | Wanted |", "|---|---|---|---|---|---|"]
    for row in msgspec.json.decode(MEASURED.read_bytes()):
        sides = " | ".join(f"{row[side]:,.3g} {row['unit']}" for side in ("ours", "other"))
        spread = f"{row['least']:.2f} to {row['greatest']:.2f}"
        lines.append(f"| {row['what']} | {sides} | {row['ratio']:.2f} | {spread} | {row['bound']} |")
    return "\n".join(lines) + "\n"


def headline() -> str:
    """Return the example of docs/reference/measured.md: what one create takes with this webhook, and with others."""
    ours, go, none = (
        f"{_measured(f'create, 1 at a time, p50 over {other}')[side]:.2f} ms"
        for other, side in (
            ("no webhook", "ours"),
            ("a Go webhook with the same patch", "other"),
            ("no webhook", "other"),
        )
    )
    return (
        f"For example, creating a pod through the API server takes {ours} with this webhook, {go} with a webhook\n"
        f"in Go that answers with the same patch, and {none} without any (median, one at a time).\n"
    )


def replicas() -> str:
    """Return how much of a core a rate of pods takes, for docs/how-to/sizing.md."""
    pods, jobs = (
        _measured(f"{what}, over the echo")["ours"] for what in ("6 KB pod (6,045 bytes)", "Job (3,001 bytes)")
    )
    through = next(one for one in rates().through if one.webhook == "none")
    cores = RATE / pods + 2 * RATE / jobs
    api = through.cpu["kube-apiserver"] / 1_000  # µs
    return (
        f"One process, on one core, answers {pods:,.0f} reviews of pods a second when they come as fast as it\n"
        f"answers, and {jobs:,.0f} of Jobs. {RATE:,} pods a second, each with a Job of its own that `/mutate` and\n"
        f"`/validate` see, take about {cores:.1f} of a core. The API server itself needs {api:.1f} ms of CPU for each\n"
        "pod that is created, without any webhook. One replica is enough for these reviews; the manifests have two\n"
        "because one may fail.\n"
    )


def at_once() -> str:
    """Return a table of many Jobs at the same time, under each webhook."""
    named = {"none": "none", "yes": "says yes", "ours": "this one"}
    heads = (
        *("Jobs", "Webhook", "all accepted after", "all complete after", "Jobs a second", "calls a second"),
        *("creating a pod, mean", "a call for a pod, mean", "a call for a Job, mean", "memory, most", "CPU"),
    )
    rows = []
    for run in _at_once():
        calls = [run["webhook_ms"].get(f"{name}.retry-policy.dev") for name in ("job-pods", "workloads")]
        rows.append(
            (
                *(f"{run['jobs']:,}", named[run["webhook"]]),
                *(f"{run[key]:,.0f} s" for key in ("created", "complete")),
                f"{run['jobs'] / run['complete']:,.0f}",
                f"{run['admissions']:,.0f}" if run["admissions"] else NONE,
                f"{run['post_ms']['pods']:,.0f} ms",
                *(NONE if call is None else f"{call:,.0f} ms" for call in calls),
                f"{run['memory']:,.0f} MiB" if run["memory"] else NONE,
                f"{run['cpu']['retry-policy']:.2f} cores" if "retry-policy" in run["cpu"] else NONE,
            )
        )
    return markdown(heads, rows)


def at_once_in_words() -> str:
    """Return how long the largest number of Jobs takes, under each webhook."""
    runs = _at_once()
    most = max(run["jobs"] for run in runs)
    took = {run["webhook"]: f"{run['complete']:,.0f} s" for run in runs if run["jobs"] == most}
    return (
        f"{most:,} Jobs complete in {took['ours']} with this webhook, in {took['yes']} with a webhook that only says\n"
        f"yes, and in {took['none']} without any.\n"
    )


def _at_once() -> list[dict[str, Any]]:
    found = msgspec.json.decode(MEASURED.with_name("at-once.json").read_bytes(), type=list[dict[str, Any]])
    return [run for run in found if run["jobs"] >= SHOWN]


def big_job() -> str:
    """Return what became of one big Job, and what it cost."""
    measured = msgspec.json.decode(MEASURED.with_name("big-job.json").read_bytes())
    runs, explained = list(measured["replay"].values()), measured["explain"]
    largest = runs[-1]
    rows = (
        ("pods that failed or were disrupted", *(f"{run['disruptions'] + run['failures']:,}" for run in runs)),
        ("pods with a wrong number of disruptions, or on the wrong nodes", *(f"{run['wrong']:,}" for run in runs)),
        ("account at the end", *(f"{run['account']:,} bytes" for run in runs)),
        ("most ended pods that wait to be counted", *(f"{run['deepest']:,}" for run in runs)),
        ("pods and counts of one replica at its end", *(f"{run['memory'] / 1e6:.1f} MB" for run in runs)),
        ("the leader's CPU for a pod that has ended", *(f"{run['leader_per_end']:.0f} µs" for run in runs)),
        ("the CPU of a pod's admission: look-up and rules", *(f"{run['per_admission']:.0f} µs" for run in runs)),
    )
    return (
        f"Of a Job of {largest['indexes']:,} indexes, {largest['at_once']:,} at a time, each of the "
        f"{largest['admitted']:,} pods was placed as a naive count of its own\n"
        "index says, and the account counts every end.\n\n"
        + markdown(("", *(f"{run['indexes']:,} indexes" for run in runs)), rows)
        + f"\n`explain` of such a Job reads {explained['listed']:,} objects, {explained['mebibytes']:.0f} MiB, in "
        f"{explained['cpu']:.1f} s of CPU,\nof which {explained['cpu_of_start']:.1f} s are the start of the command.\n"
    )


def _measured(what: str) -> dict[str, Any]:
    return next(row for row in msgspec.json.decode(MEASURED.read_bytes()) if row["what"] == what)
