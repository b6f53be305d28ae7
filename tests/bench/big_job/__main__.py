"""Measures one big Job: `python -m tests.bench.big_job`, three minutes; writes docs/reference/big-job.json.

- A replay of the whole Job with a quarter of the indexes, and with all: placements, account, CPU, memory.
- The command `explain` in the middle of it.

`python -m tests.cluster --without-operators -- python -m tests.bench.big_job.real` measures a part of it with the real
Job controller.
"""

import gc
import json
from dataclasses import asdict
from pathlib import Path

from tests.bench.big_job.explaining import explained_of
from tests.bench.big_job.replay import BigJob, Figures
from tests.virtual_time import run
from webhook.accounts.scopes import ranges

INDEXES = 100_000
AT_ONCE = 5_000
PER_SECOND = 400  # ends of pods
FILE = Path(__file__).parents[3] / "docs" / "reference" / "big-job.json"


def shown(figures: Figures) -> dict[str, object]:
    """Return the figures that are written."""
    found = {key: one for key, one in asdict(figures).items() if not key.startswith("cpu")}
    per_pod = {name: round(getattr(figures, name), 1) for name in ("leader_per_end", "per_admission", "per_event")}
    return {**found, **per_pod}


def main() -> None:
    """Run the parts, print their figures and write them."""
    gc.disable()  # it would search the simulated world again and again, which no replica holds
    found = {}
    for indexes in (INDEXES // 4, INDEXES):
        found[str(indexes)] = shown(run(BigJob(indexes, AT_ONCE).play(PER_SECOND)))
        print(f"{indexes} indexes:", found[str(indexes)], flush=True)
    half = BigJob(INDEXES // 2, AT_ONCE)
    run(half.play(PER_SECOND, most=0.5))
    half.job["status"] = {"succeeded": len(half.done), "completedIndexes": ranges(map(str, half.done))}
    assert half.account is not None
    explained = asdict(explained_of(half.job, half.account, [*half.stored.values()]))
    print("explain:", explained)
    FILE.write_text(json.dumps({"replay": found, "explain": explained}, indent=2) + "\n")


if __name__ == "__main__":
    main()
