"""Certificates renewed every few seconds under load: a hundred leaves and ten authorities, two replicas.

Brings a control plane of its own: `python -m tests.bench.rotations`.
"""

import time

from certs.store import Shared
from tests.faults.stage import BURST, Stage, standing

LEAVES = 100
AUTHORITIES = 10
RATE = 220  # admissions a second
LIFETIMES = ("--leaf=6", "--authority=60", "--announcement=2")  # seconds
LONGEST = 900.0  # seconds for all of it
INTERVAL = 0.2  # seconds between two looks at the Secret; a leaf is renewed every four


def main() -> None:
    with standing() as stage:
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
    """Count in the Secret how often each is replaced, until both have been often enough, or for long enough."""
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
    """Tell whether there is another leaf of the same authority."""
    return now.leaf != before.leaf and now.authority == before.authority


if __name__ == "__main__":
    main()
