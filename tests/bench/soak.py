"""Memory of two replicas over a long time, under load, with a new certificate every minute.

Brings a control plane of its own: `python -m tests.bench.soak [MINUTES]`, thirty by default.
"""

import sys
import time
from pathlib import Path

from certs.issue import KeyPair
from tests.faults.stage import Replica, Stage, standing

MINUTES = 30
WARM_UP = 5  # minutes
RATE = 200  # admissions a second
LEAF = 90  # seconds: renewed after two thirds of them


def main(minutes: int) -> None:
    with standing() as stage:
        stage.reset()
        replicas = stage.two_replicas(f"--leaf={LEAF}")
        with stage.under_load("soak", rate=RATE) as watched:
            resident = [[memory(replica) for replica in replicas]]
            leaves = {stage.good().leaf}
            begin = time.monotonic()
            for minute in range(1, minutes + 1):
                watch(stage, leaves, until=begin + 60 * minute)
                resident.append([memory(replica) for replica in replicas])
                print(f"minute {minute}: {shown(resident[-1])} MiB, {watched.lap().lost} admissions lost", flush=True)
    tally = watched.tally
    print(f"at the start {shown(resident[0])} MiB, at the end {shown(resident[-1])} MiB")
    if minutes > WARM_UP:
        growth = [end - warm for warm, end in zip(resident[WARM_UP], resident[-1], strict=True)]
        print(f"growth after {WARM_UP} minutes: {shown(growth)} MiB")
    print(
        f"{len(leaves) - 1} leaves renewed; {tally.admissions} admissions, {tally.failed} failed, {tally.wrong} wrong"
    )
    for message in tally.messages:
        print(message)


def watch(stage: Stage, leaves: set[KeyPair], *, until: float) -> None:
    """Note every leaf until a moment."""
    while (left := until - time.monotonic()) > 0:
        time.sleep(min(left, 1.0))
        leaves.add(stage.good().leaf)


def memory(replica: Replica) -> float:
    """Return the resident memory of a replica in MiB."""
    lines = Path(f"/proc/{replica.process.pid}/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024


def shown(figures: list[float]) -> str:
    return ", ".join(f"{figure:.1f}" for figure in figures)


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else MINUTES)
