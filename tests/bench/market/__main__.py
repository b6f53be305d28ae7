"""How soon and at what cost Jobs finish on a spot market, under the default policy and beside it.

Spot machines live once, twice and four times as long as the mean Job. Each round is one market under all policies at
once, on a control plane of its own whose Job controller is as much faster as the Jobs are shorter: a simulated minute
takes two seconds. `python -m tests.bench.market [--part SHARE] [--lives 1,2,4] [--seeds 1,2,3]` takes half an hour,
writes docs/explanation/market.json and prints the table of docs/explanation/market.md.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tests.bench.market.draw import LONGEST, Market
from tests.bench.market.figures import MEASURED, Cell, slowest_on_demand, table
from tests.bench.market.policies import POLICIES, namespace, policy_file
from tests.bench.market.rounds import MINUTE, Round
from tests.cluster import binaries, control_plane, installation, nodes
from tests.cluster.binaries import FASTER_CONTROLLER_MANAGER
from tests.cluster.kubectl import Kubectl
from tests.cluster.processes import Processes
from webhook.kube.client import Api

if TYPE_CHECKING:
    from collections.abc import Iterator

CONTROLLER_MANAGER = "kube-controller-manager"
TRIES = 3
TOO_SLOW = 2 * LONGEST  # minutes


@contextmanager
def cluster() -> Iterator[Kubectl]:
    """Start a control plane with a faster Job controller, and the webhook with a profile for each policy."""
    programs = binaries.build([*binaries.own_cluster(), FASTER_CONTROLLER_MANAGER])
    programs[CONTROLLER_MANAGER] = programs[FASTER_CONTROLLER_MANAGER.name]
    os.environ["FASTER"] = str(round(60 / MINUTE))
    with tempfile.TemporaryDirectory(prefix="retry-policy-market-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        processes = Processes(folder / "logs")
        processes.logs.mkdir()
        try:
            kubectl = Kubectl(programs["kubectl"], control_plane.start(programs, processes, folder))
            nodes.start(programs, processes, kubectl, foreign=False)
            policy = installation.start(processes, kubectl, folder, for_tests=True)
            policy.write_text(policy_file())
            probe = {"apiVersion": "v1", "kind": "Namespace", **namespace(POLICIES[-1])}
            dry_run = ("create", "--dry-run=server", "--filename=-")
            processes.wait_until(
                lambda: kubectl.run(*dry_run, stdin=probe).returncode == 0, "the policy", log=installation.SERVER
            )
            yield kubectl
        finally:
            processes.stop()


def measured(market: Market, part: float) -> list[Cell]:
    """Return a round's cells; measure it again while the machine was too busy to play even on-demand in time."""
    for _ in range(TRIES):
        with cluster() as kubectl:
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
