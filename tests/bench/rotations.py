"""Certificates that are renewed every few seconds under load: a hundred leaves and ten CAs, with two replicas.

Starts its own control plane: `python -m tests.bench.rotations`.
"""

import time

from certs.store import Shared
from tests.faults.stage import BURST, Stage, new_stage

LEAVES = 100
AUTHORITIES = 10
RATE = 220  # admissions a second
LIFETIMES = ("--leaf=6", "--authority=60", "--announcement=2")  # seconds
LONGEST = 900.0  # seconds for the whole run
INTERVAL = 0.2  # seconds between two reads of the Secret; a leaf is renewed every four seconds


def main() -> None:
    with new_stage() as stage:
        stage.reset()
        stage.two_replicas(*LIFETIMES)
        begin = time.monotonic()
        with stage.under_load("rotations", rate=RATE, burst=BURST) as watched:
            leaves, authorities = rotations(stage)
        seconds = time.monotonic() - begin
    tally = watched.tally
    print(f"{leaves} leaves renewed by the same authority, {authorities} authorities replaced, in {seconds:.0f} s")
    print(f"{tally.admissions} admissions ({tally.admissions / seconds:.0f}/s), {BURST} at once, 2 replicas")
    print(f"{tally.failed} failed, {tally.wrong} wrong; no answer from the API server itself: {tally.api}")
    for message in tally.messages:
        print(message)


def rotations(stage: Stage) -> tuple[int, int]:
    """Count renewed leaves and replaced CAs in the Secret until both numbers are reached, or for LONGEST seconds."""
    leaves = authorities = 0
    deadline = time.monotonic() + LONGEST
    before = stage.good()
    while (leaves < LEAVES or authorities < AUTHORITIES) and time.monotonic() < deadline:
        time.sleep(INTERVAL)
        now = stage.good()
        authorities += now.authority != before.authority
        leaves += renewed(before, now)
        before = now
    return leaves, authorities


def renewed(before: Shared, now: Shared) -> bool:
    """Return True if the leaf has been renewed by the same CA."""
    return now.leaf != before.leaf and now.authority == before.authority


if __name__ == "__main__":
    main()
