"""What the rules of onFailure are worth in a simulated hour of 200 Jobs.

Each fifth Job needs more memory than it asks for, each tenth one runs on accelerated nodes of which two are bad, and
the spot nodes of one zone are interrupted again and again. The hour runs on a real control plane under three policies
at once, in three minutes: `python -m tests.bench.hour [--seed N]`. It writes docs/explanation/hour.json, draws
docs/explanation/hour.svg and prints the table of docs/explanation/policies-compared.md. `--draw` only draws and prints.
"""

from __future__ import annotations

import argparse
import asyncio
from typing import TYPE_CHECKING

from tests.bench.faster import faster_cluster
from tests.bench.hour import figures
from tests.bench.hour.draw import JOBS, jobs
from tests.bench.hour.picture import draw
from tests.bench.hour.policies import WITH, namespace, policy_file
from tests.bench.hour.rounds import MINUTE, Hour
from webhook.kube.client import Api

if TYPE_CHECKING:
    from tests.bench.hour.draw import DrawnJob
    from tests.bench.hour.figures import Cell
    from tests.cluster.kubectl import Kubectl


async def measure(kubectl: Kubectl, drawn: list[DrawnJob]) -> list[Cell]:
    async with await Api.connect(str(kubectl.kubeconfig)) as api:
        return await Hour(api, drawn).main()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.hour", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=JOBS, help="fewer, for a trial: nothing is written")
    parser.add_argument("--draw", action="store_true", help="draw what was measured")
    options = parser.parse_args()
    if not options.draw:
        with faster_cluster(policy_file(), namespace(WITH), MINUTE) as kubectl:
            cells = asyncio.run(measure(kubectl, jobs(options.seed, options.jobs)))
        print(figures.table(cells), flush=True)
        if options.jobs != JOBS:
            return
        figures.write(cells)
    draw(figures.read())
    print(figures.table())


if __name__ == "__main__":
    main()
