"""What the pages about performance say, from the results of `make bench` and of `tests.bench.curve.rates`."""

from pathlib import Path
from typing import Any, Final

import msgspec

from tests.bench.curve.figures import rates

MEASURED: Final = Path(__file__).parents[2] / "docs" / "reference" / "performance.json"
RATE: Final = 1_000  # pods a second


def table() -> str:
    """Return a table of each figure with the one that was measured beside it."""
    lines = ["| What | Ours | The other | Ratio | of the rounds | Wanted |", "|---|---|---|---|---|---|"]
    for row in msgspec.json.decode(MEASURED.read_bytes()):
        sides = " | ".join(f"{row[side]:,.3g} {row['unit']}" for side in ("ours", "other"))
        spread = f"{row['least']:.2f} to {row['greatest']:.2f}"
        lines.append(f"| {row['what']} | {sides} | {row['ratio']:.2f} | {spread} | {row['bound']} |")
    return "\n".join(lines) + "\n"


def headline() -> str:
    """Return the example of docs/reference/performance.md: what one create takes with this webhook, and with others."""
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
    """Return how much of a core a rate of pods takes, for docs/explanation/performance.md."""
    pods, jobs = (
        _measured(f"{what}, over the echo")["ours"] for what in ("6 KB pod (6,045 bytes)", "Job (3,001 bytes)")
    )
    through = next(one for one in rates().through if one.webhook == "none")
    cores = RATE / pods + 2 * RATE / jobs
    api = through.cpu["kube-apiserver"] / RATE
    return (
        f"One process, on one core, answers {pods:,.0f} reviews of pods a second when they come as fast as it\n"
        f"answers, and {jobs:,.0f} of Jobs. {RATE:,} pods a second, each with a Job of its own that `/mutate` and\n"
        f"`/validate` see, take about {cores:.1f} of a core. The API server itself needs {api:.1f} ms of CPU for each\n"
        "pod that is created, without any webhook. So one replica is enough, and the manifests have two because one\n"
        "may fail.\n"
    )


def _measured(what: str) -> dict[str, Any]:
    return next(row for row in msgspec.json.decode(MEASURED.read_bytes()) if row["what"] == what)
