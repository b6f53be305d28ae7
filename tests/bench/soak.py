"""Memory of two replicas over a long time, under load, with a new certificate every minute.

Starts its own control plane: `python -m tests.bench.soak [MINUTES]`, by default thirty.
"""

import sys
import time

from certs.issue import KeyPair
from tests.bench.asking import resident
from tests.faults.stage import Stage, new_stage

MINUTES = 30
WARM_UP = 5  # minutes
RATE = 200  # admissions a second
LEAF = 90  # seconds: renewed after two thirds of them


def main(minutes: int) -> None:
    with new_stage() as stage:
        stage.reset()
        replicas = stage.two_replicas(f"--leaf={LEAF}")
        with stage.under_load("soak", rate=RATE) as watched:
            sizes = [[resident(replica.process.pid) for replica in replicas]]
            leaves = {stage.good().leaf}
            begin = time.monotonic()
            for minute in range(1, minutes + 1):
                watch(stage, leaves, until=begin + 60 * minute)
                sizes.append([resident(replica.process.pid) for replica in replicas])
                print(f"minute {minute}: {shown(sizes[-1])} MiB, {watched.lap().lost} admissions lost", flush=True)
    tally = watched.tally
    print(f"at the start {shown(sizes[0])} MiB, at the end {shown(sizes[-1])} MiB")
    if minutes > WARM_UP:
        growth = [end - warm for warm, end in zip(sizes[WARM_UP], sizes[-1], strict=True)]
        print(f"growth after {WARM_UP} minutes: {shown(growth)} MiB")
    print(
        f"{len(leaves) - 1} leaves renewed; {tally.admissions} admissions, {tally.failed} failed, {tally.wrong} wrong"
    )
    for message in tally.messages:
        print(message)


def watch(stage: Stage, leaves: set[KeyPair], *, until: float) -> None:
    """Collect every leaf of the Secret until this monotonic time."""
    while (left := until - time.monotonic()) > 0:
        time.sleep(min(left, 1.0))
        leaves.add(stage.good().leaf)


def shown(figures: list[float]) -> str:
    return ", ".join(f"{figure:.1f}" for figure in figures)


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else MINUTES)
