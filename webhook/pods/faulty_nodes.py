"""Counts for each node the workloads whose pods a fault of its hardware has ended, in the last seven days. Pure.

A node that had such a fault has the next one 15 % to 39 % as often as its whole fleet within a day (docs/explanation/
recorded.md). Nothing is learned from failures of programs: they repeat with the program, not with the machine.

Every replica learns of them from the Accounts, as long as these exist: one that has just started knows those.
"""

from collections.abc import Callable
from typing import Final

from webhook.pods.rejections import MOST_NODES, WINDOW

WEEK: Final = 604_800.0  # seconds
FEWEST: Final = 2  # workloads of a node that is counted in metrics
MOST: Final = 10  # workloads of a node that are told apart


class FaultyNodes:
    """The nodes of a cluster whose hardware has ended pods; times are in seconds since 1970.

    `nodes`: by name, when a fault ended the last pod of each workload, by the uid of that, the newest last.
    `since`: returns since when a node exists under its name; what another one of this name did does not count.
    """

    def __init__(self, since: Callable[[str], float] = lambda _: 0.0) -> None:
        self.since = since
        self.nodes: dict[str, dict[str, float]] = {}

    def see(self, node: str, workload: str, time: float, now: float) -> int:
        """Record that a fault of a node has ended a pod; return of how many workloads it has, if one is new; else 0."""
        if not node or not (now - WEEK < time <= now + WINDOW and self.since(node) <= time):
            return 0
        workloads = self.nodes.get(node)
        if workloads is None:
            if len(self.nodes) >= MOST_NODES:
                del self.nodes[min(self.nodes, key=lambda name: max(self.nodes[name].values()))]
            workloads = self.nodes[node] = {}
        known = workloads.pop(workload, None)
        workloads[workload] = time if known is None else max(time, known)
        if len(workloads) > MOST:
            del workloads[min(workloads, key=lambda one: workloads[one])]
        return 0 if known is not None else len(self._times(node, now))

    def number(self, now: float) -> int:
        """Return how many nodes have ended pods of FEWEST workloads in the last seven days."""
        return sum(len(self._times(name, now)) >= FEWEST for name in self.nodes)

    def avoided(self, faults: int, avoid_for: int, now: float) -> list[tuple[float, str]]:
        """Return when, and which nodes ended pods of so many workloads in WEEK, the last in `avoid_for` seconds."""
        found = []
        for name in self.nodes:
            newest = self._times(name, now - avoid_for)[-faults:]
            if len(newest) == faults and newest[-1] > now - avoid_for and newest[-1] - newest[0] < WEEK:
                found.append((newest[-1], name))
        return found

    def _times(self, node: str, now: float) -> list[float]:
        """Return when faults of a node have ended the last pod of each workload, in WEEK before `now` or later."""
        since = self.since(node)  # in whole seconds, as `time`
        return sorted(time for time in self.nodes[node].values() if now - WEEK < time >= since)
