"""Leaders that are killed between every two steps of delay, spotWait and memory: nothing stuck, nothing twice?

`python -m tests.bench.leaders` kills a leader before and after each of its writes, in virtual time, with a simulated
cluster: hundreds of runs in a few seconds. `--cluster RUNS` kills real leaders on a real control plane, one at a
write of each run, which takes a minute each.
"""

from __future__ import annotations

import argparse
import logging
import sys

import structlog

from tests.bench.leaders import real
from tests.bench.leaders.scenarios import VIRTUAL
from tests.bench.leaders.virtual import Run, kills

JOBS = (1, 3)


def virtual(names: list[str]) -> int:
    """Play all kills of scenarios, and print a line for each; return the number of runs in which something is wrong."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    wrong = 0
    for scenario in (VIRTUAL[name] for name in names):
        runs = [Run(scenario, kill, jobs).play() for jobs in JOBS for kill in kills(scenario, jobs)]
        bad = [run for run in runs if run.problems]
        print(f"{scenario.name}: {len(runs)} runs, something stuck, twice or too early in {len(bad)}", flush=True)
        for run in bad:
            print(f"  {run.kill}: {'; '.join(run.problems)}")
        wrong += len(bad)
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.leaders", description=__doc__)
    parser.add_argument("scenario", nargs="*", default=list(VIRTUAL), help=f"of {', '.join(VIRTUAL)}")
    parser.add_argument("--cluster", type=int, metavar="RUNS", help="on a real control plane")
    options = parser.parse_args()
    return bool(virtual(options.scenario) if options.cluster is None else real.main(options.cluster))


if __name__ == "__main__":
    sys.exit(main())
