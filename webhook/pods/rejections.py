"""Counts how often each node has rejected pods in the last ten minutes. Pure.

A kubelet rejects a pod that was scheduled to it if a device cannot be allocated, or a resource is not there any more
(pkg/kubelet/lifecycle/predicate.go, pkg/kubelet/cm/topologymanager). Such a node is often the emptiest one, so the
scheduler sends the next pod there again, which is rejected too.

Nodes without a fault reject pods as well. A kubelet that restarts rejects pods that ran there, all at once
(kubernetes#125579, #133382): what is rejected within APART counts once. And what a pod had that has just ended may not
be free yet for the next one (kubernetes#106884): the count begins anew when such a pod ends.

Every replica counts by the times in the pods: one that has just started finds the rejections of the last ten minutes.
"""

from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Final

from webhook.objects.times import seconds
from webhook.pods.pods import ENDING, Pod

WINDOW: Final = 600.0  # seconds
APART: Final = 10.0  # seconds between two that count: the Job controller waits so long before it creates the next pod
DAY: Final = 86_400.0  # seconds
FEWEST: Final = 3  # rejections of a node that is counted in metrics
MOST: Final = 10  # rejections of a node that are told apart
MOST_NODES: Final = 1_000  # that are remembered; the one whose last rejection is the oldest is forgotten
SHARE: Final = 20  # of so many nodes one is avoided, and one where there are fewer
NO_DEVICE: Final = "UnexpectedAdmissionError"  # the reason of a rejected pod
NO_RESOURCE: Final = "OutOf"  # the begin of the others, such as OutOfcpu and OutOfnvidia.com/gpu


class NodeRejections:
    """When a node has rejected pods, APART from each other; `last`: when so many of these were in WINDOW.

    `devices`: the names of those that the last pod asked for. `freed`: when a pod ended there that had had such.
    """

    def __init__(self) -> None:
        self.times: deque[float] = deque(maxlen=MOST)
        self.last = [0.0] * (MOST + 1)
        self.devices: frozenset[str] = frozenset()
        self.freed = 0.0

    def add(self, pod: Pod, time: float) -> tuple[float, ...]:
        """Record a rejected pod; return as `Rejections.see`."""
        is_old = len(self.times) == MOST and time <= self.times[0]  # of a list that is read again
        if is_old or any(abs(time - other) < APART for other in self.times):
            return ()
        self.times.append(time)
        self.devices = _devices_of(pod)
        number = sum(max(time - WINDOW, self.freed) < other <= time for other in self.times)
        before = tuple(self.last[1 : number + 1])
        for fewer in range(number + 1):
            self.last[fewer] = max(self.last[fewer], time)
        return before

    def see_end(self, pod: Pod) -> None:
        """Record that a pod has ended that had run there: what it had may not be free yet for the next one.

        If the node has taken it after the last one that it rejected, then it is well.
        """
        ended, started = seconds(pod.finished), seconds(pod.started)
        if ended is None or not self.devices <= _devices_of(pod):
            return
        self.freed = max(self.freed, ended)
        if started is not None and started > max(self.times):
            self.last = [0.0] * (MOST + 1)


class Rejections:
    """The nodes of a cluster that reject pods; `now` is in seconds since 1970.

    `since`: returns since when a node exists under its name; what another one of this name did does not count.
    """

    def __init__(self, since: Callable[[str], float] = lambda _: 0.0) -> None:
        self.since = since
        self.nodes: dict[str, NodeRejections] = {}

    def see(self, pod: Pod, now: float) -> tuple[float, ...]:
        """Record the current state of a pod; return nothing if it is no news that its node has rejected it.

        Else as many times as the node has rejected pods in WINDOW, at most MOST: when it last had rejected one, two, …
        """
        time, node = time_of_rejection(pod), self.nodes.get(pod.node)
        if time is None:
            if node is not None and (pod.has_succeeded or (pod.has_failed and pod.exits)):
                node.see_end(pod)
            return ()
        if not max(now - WINDOW, self.since(pod.node)) <= time <= now + WINDOW:
            return ()
        if node is None:
            if len(self.nodes) >= MOST_NODES:
                del self.nodes[min(self.nodes, key=lambda name: self.nodes[name].last[0])]
            node = self.nodes[pod.node] = NodeRejections()
        return node.add(pod, time)

    def number(self, now: float) -> int:
        """Return how many nodes rejected pods FEWEST times in WINDOW within the last DAY."""
        return len(self.avoided(FEWEST, int(DAY), now))

    def avoided(self, rejected: int, avoid_for: int, now: float) -> list[tuple[float, str]]:
        """Return when, and which nodes rejected pods so often in WINDOW, within the last `avoid_for` seconds."""
        return [
            (one.last[rejected], name)
            for name, one in self.nodes.items()
            if one.last[rejected] > max(now - avoid_for, self.since(name))
        ]


def the_worst(found: list[tuple[float, str]], nodes: int) -> tuple[str, ...]:
    """Return the names of nodes, the last one that was bad first: at most one of SHARE.

    `found`: when each was bad; a node may be there twice. `nodes`: how many the cluster has.
    """
    names = dict.fromkeys(name for _, name in sorted(found, reverse=True))
    return tuple(islice(names, max(1, nodes // SHARE)))


def _devices_of(pod: Pod) -> frozenset[str]:
    """Return the names of the extended resources that a pod requests."""
    return frozenset(name for name, _ in pod.resources if "/" in name)


def time_of_rejection(pod: Pod) -> float | None:
    """Return when a kubelet rejected a pod, in seconds since 1970; None if none did.

    A deletion later changes nothing of that, but when the pod ended.
    """
    if not pod.node or not (pod.reason == NO_DEVICE or pod.reason.startswith(NO_RESOURCE)) or not pod.has_ended:
        return None
    told = max((one.time for one in pod.conditions if one.type not in ENDING), default="")
    return seconds(told or pod.started)
