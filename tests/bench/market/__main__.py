"""How soon and at what cost Jobs finish on a spot market, under the default policy and beside it.

Spot machines live once, twice and four times as long as the mean Job. Each round is one market under all policies at
once, on a control plane of its own whose Job controller is as much faster as the Jobs are shorter: a simulated minute
takes two seconds. `python -m tests.bench.market [--part SHARE] [--lives 1,2,4] [--seeds 1,2,3]` takes half an hour,
writes docs/explanation/market.json and prints the table of docs/explanation/policies-compared.md.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tests.bench.faster import faster_cluster
from tests.bench.market.draw import LONGEST, Market
from tests.bench.market.figures import MEASURED, Cell, slowest_on_demand, table
from tests.bench.market.policies import POLICIES, namespace, policy_file
from tests.bench.market.rounds import MINUTE, Round
from webhook.kube.client import Api

if TYPE_CHECKING:
    from tests.cluster.kubectl import Kubectl

TRIES = 3
TOO_SLOW = 2 * LONGEST  # minutes


def measured(market: Market, part: float) -> list[Cell]:
    """Return a round's cells; measure it again while the machine was too busy to play even on-demand in time."""
    for _ in range(TRIES):
        with faster_cluster(policy_file(), namespace(POLICIES[-1]), MINUTE) as kubectl:
            cells = asyncio.run(measure(kubectl, market, part))
        slowest = slowest_on_demand(cells)
        if slowest <= TOO_SLOW:
            break
        print(f"the slowest Job took {slowest:.0f} minutes on-demand: the machine is too busy", flush=True)
    return cells


async def measure(kubectl: Kubectl, market: Market, part: float) -> list[Cell]:
    async with await Api.connect(str(kubectl.kubeconfig)) as api:
        return await Round(api, market, part=part).main()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.market", description=__doc__)
    parser.add_argument("--part", type=float, default=1, help="of the Jobs of one pod")
    parser.add_argument("--lives", default="1,2,4", help="mean lives of spot machines, in mean Jobs")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--output", type=Path, default=MEASURED)
    options = parser.parse_args()
    cells: list[Cell] = []
    for seed in options.seeds.split(","):
        for life in options.lives.split(","):
            cells += measured(Market(int(seed), float(life)), options.part)
            options.output.write_bytes(msgspec.json.format(msgspec.json.encode(cells), indent=1) + b"\n")
            print(table(cells), flush=True)


if __name__ == "__main__":
    main()
