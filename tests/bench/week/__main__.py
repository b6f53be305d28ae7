"""What a week of a spot market costs, and how soon its Jobs finish, under the default policy and beside it.

420 Jobs: in working hours and in a burst each night, of minutes to many hours, some with bugs, short of memory, or
crashing now and then. Spot prices change, spot nodes are lost one by one and in waves. The week runs on a real control
plane under all policies at once, 500 times as fast, in 22 minutes:
`python -m tests.bench.week [--seeds 1,2,3] [--days 7] [--part 1] [--records FOLDER]`. It writes
docs/explanation/week.json, draws docs/explanation/week.svg and prints the table of
docs/explanation/policies-compared.md. With fewer days or a part of the Jobs nothing is written to docs/.

`--records` keeps the records of each seed and policy, the policies and the figures for `tests.bench.week.compare`. With
`--server-history` it also keeps those that the server wrote, and prints where they differ from the witness's, and the
goodput of both. `--draw` only draws and prints again; with `--records` what that folder has of all seeds.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING

from tests.bench.faster import faster_cluster
from tests.bench.simulation import name_of
from tests.bench.week import figures
from tests.bench.week.draw import DAYS, jobs
from tests.bench.week.keep import cells_in, keep
from tests.bench.week.picture import draw
from tests.bench.week.policies import DEFAULT, HOUR, POLICIES, file_of, market_of, namespace, policy_file
from tests.bench.week.rounds import Week
from webhook.kube.client import Api

if TYPE_CHECKING:
    from tests.bench.week.figures import Cell
    from tests.cluster.kubectl import Kubectl


async def lived(kubectl: Kubectl, seed: int, days: int, part: float) -> Week:
    """Let a week pass with a part of its Jobs."""
    async with await Api.connect(str(kubectl.kubeconfig)) as api:
        drawn = jobs(seed, days)
        week = Week(api, market_of(seed, days), drawn[:: max(1, round(1 / part))], days)
        await week.main()
        return week


def measured(seed: int, options: argparse.Namespace) -> list[Cell]:
    """Return what a week came to under each policy; keep its records in a folder, if one is given."""
    policy = file_of(policy_file(market_of(seed, options.days)))
    with tempfile.TemporaryDirectory() as folder:
        server = Path(folder) if options.server_history else None
        flags = [] if server is None else [f"--history={server}"]
        with faster_cluster(policy, namespace(DEFAULT), HOUR / 60, *flags) as kubectl:
            week = asyncio.run(lived(kubectl, seed, options.days, options.part))
        cells = [week.seen[name_of(policy)].cell(policy, options.days, mean(week.loads)) for policy in POLICIES]
        if options.records is not None:
            keep(options.records / str(seed), week, cells, server)
    return cells


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.week", description=__doc__)
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--days", type=int, default=DAYS)
    parser.add_argument("--part", type=float, default=1, help="of the Jobs")
    parser.add_argument("--records", type=Path, help="a folder for the records of each seed and policy")
    parser.add_argument("--server-history", action="store_true", help="keep the records of the server too")
    parser.add_argument("--draw", action="store_true", help="draw what was measured")
    options = parser.parse_args()
    if options.server_history and options.records is None:
        parser.error("--server-history needs --records FOLDER")
    whole = options.days == DAYS and options.part == 1
    if not options.draw:
        cells: list[Cell] = []
        for seed in map(int, options.seeds.split(",")):
            cells += measured(seed, options)
            print(figures.table(cells), flush=True)
            if whole:
                figures.write(cells)
    elif options.records is not None:
        figures.write(cells_in(options.records))
    if options.draw or whole:
        draw(figures.read())
        print(figures.table())


if __name__ == "__main__":
    main()
