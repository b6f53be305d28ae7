"""Counts the pods that each node has rejected in the last ten minutes. Pure.

A kubelet rejects a pod that was scheduled to it if a device cannot be allocated, or a resource is not there any more
(pkg/kubelet/lifecycle/predicate.go, pkg/kubelet/cm/topologymanager). Such a node is often the emptiest one, so the
scheduler sends the next pod there again.

Every replica counts by the times in the pods: one that has just started finds the rejections of the last ten minutes.
"""

from collections import deque
from itertools import islice
from typing import Final

from webhook.objects.times import seconds
from webhook.pods.pods import Pod

WINDOW: Final = 600.0  # seconds
DAY: Final = 86_400.0  # seconds
FEWEST: Final = 3  # rejected pods of a node that is counted in metrics
MOST: Final = 10  # rejections of a node that are told apart
MOST_NODES: Final = 1_000  # that are remembered; the one whose last rejection is the oldest is forgotten
SHARE: Final = 20  # of so many nodes one is avoided, and one where there are fewer
NO_DEVICE: Final = "UnexpectedAdmissionError"  # the reason of a rejected pod
NO_RESOURCE: Final = "OutOf"  # the begin of the others, such as OutOfcpu and OutOfnvidia.com/gpu


class NodeRejections:
    """The last pods that a node has rejected, by uid, with the time; `last`: when so many of them were in WINDOW."""

    def __init__(self) -> None:
        self.pods: deque[tuple[str, float]] = deque(maxlen=MOST)
        self.last = [0.0] * (MOST + 1)

    def add(self, uid: str, time: float) -> int:
        """Record a rejected pod; return how many there were in WINDOW, at most MOST; 0 if it is known."""
        is_old = len(self.pods) == MOST and time <= self.pods[0][1]  # of a list that is read again
        if is_old or any(uid == known for known, _ in self.pods):
            return 0
        self.pods.append((uid, time))
        number = sum(time - WINDOW < other <= time for _, other in self.pods)
        for fewer in range(number + 1):
            self.last[fewer] = max(self.last[fewer], time)
        return number


class Rejections:
    """The nodes of a cluster that reject pods; `now` is in seconds since 1970."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeRejections] = {}

    def see(self, pod: Pod, now: float) -> int:
        """Record the current state of a pod; return how many its node has rejected, if this is news; else 0."""
        time = time_of_rejection(pod)
        if time is None or not now - WINDOW <= time <= now + WINDOW:
            return 0
        node = self.nodes.get(pod.node)
        if node is None:
            if len(self.nodes) >= MOST_NODES:
                del self.nodes[min(self.nodes, key=lambda name: self.nodes[name].last[1])]
            node = self.nodes[pod.node] = NodeRejections()
        return node.add(pod.uid, time)

    def number(self, now: float) -> int:
        """Return how many nodes rejected FEWEST pods in WINDOW within the last DAY."""
        return sum(one.last[FEWEST] > now - DAY for one in self.nodes.values())

    def avoided(self, rejected: int, avoid_for: int, now: float) -> list[tuple[float, str]]:
        """Return the nodes that rejected so many pods in WINDOW within the last `avoid_for` seconds: when, and name."""
        return [(one.last[rejected], name) for name, one in self.nodes.items() if one.last[rejected] > now - avoid_for]


def the_worst(found: list[tuple[float, str]], nodes: int) -> tuple[str, ...]:
    """Return the names of nodes, the last one that was bad first: at most one of SHARE.

    `found`: when each was bad; a node may be there twice. `nodes`: how many the cluster has.
    """
    names = dict.fromkeys(name for _, name in sorted(found, reverse=True))
    return tuple(islice(names, max(1, nodes // SHARE)))


def time_of_rejection(pod: Pod) -> float | None:
    """Return when a kubelet rejected a pod, in seconds since 1970; None if none did."""
    if not pod.node or not (pod.reason == NO_DEVICE or pod.reason.startswith(NO_RESOURCE)) or not pod.has_ended:
        return None
    return seconds(pod.finished)
