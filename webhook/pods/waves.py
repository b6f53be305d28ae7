"""Counts the spot pods of each zone, and those of them that were lost in the last ten minutes. Pure.

Every replica counts by the times in the pods: one that has just started finds the waves of the last ten minutes.
"""

from typing import Final, NamedTuple

from webhook.objects.times import seconds
from webhook.pods.pods import Pod

WINDOW: Final = 600.0  # seconds
FEWEST: Final = 3  # lost pods of a zone: fewer are no wave, whatever their share, because one node may have had them
MOST_ZONES: Final = 100  # more are left out: on Kubernetes below 1.35 users may write the label of a pod's zone
MOST_AVOIDED: Final = 10
MOST_LOST: Final = 10_000  # of one zone that are remembered
BY_OTHER_PODS: Final = "PreemptionByScheduler"  # this disruption says nothing about spot nodes


class Loss(NamedTuple):
    """A share of a zone's spot pods, in percent, that was last seen lost at a time; since then less was."""

    time: float
    share: int


class Zone:
    """The spot pods of one zone, by uid.

    `lost`: when each was lost, in seconds since 1970, in the order in which that was seen. `losses`: the newest has the
    smallest share, so there are at most 100.
    """

    def __init__(self) -> None:
        self.running: set[str] = set()
        self.lost: dict[str, float] = {}
        self.losses: list[Loss] = []

    def lose(self, uid: str, time: float) -> None:
        """Record that a pod was lost."""
        self.running.discard(uid)
        self.lost[uid] = time
        if len(self.lost) > MOST_LOST:
            del self.lost[next(iter(self.lost))]

    def ratio(self, now: float) -> float:
        """Return the share of pods that were lost in the last WINDOW seconds, 0 to 1; forget those lost before."""
        while self.lost and next(iter(self.lost.values())) < now - WINDOW:
            del self.lost[next(iter(self.lost))]
        return len(self.lost) / (len(self.lost) + len(self.running)) if self.lost else 0.0

    def remember(self, now: float) -> None:
        """Remember the share that is lost now, unless too few pods are."""
        share = int(self.ratio(now) * 100)
        if len(self.lost) < FEWEST:
            return
        while self.losses and self.losses[-1].share <= share:
            self.losses.pop()
        self.losses.append(Loss(now, share))

    def last_loss_of(self, share: int) -> float:
        """Return when at least a share of the pods, in percent, was last seen lost; 0 if it never was."""
        return next((loss.time for loss in reversed(self.losses) if loss.share >= share), 0.0)


class Waves:
    """The zones of a cluster that lose their spot pods; `now` is in seconds since 1970."""

    def __init__(self) -> None:
        self.zones: dict[str, Zone] = {}

    def see(self, pod: Pod, now: float, *, gone: bool = False, news: bool = True) -> None:
        """Record the current state of a pod.

        `gone`: whether it was deleted. `news`: False for a pod of a list, after which the caller calls `look`.
        """
        if pod.placement != "Spot" or not pod.zone or not pod.node:
            return
        zone = self.zones.get(pod.zone)
        if zone is None:
            if len(self.zones) >= MOST_ZONES:
                return
            zone = self.zones[pod.zone] = Zone()
        lost = time_of_loss(pod)
        if lost is None:
            (zone.running.discard if gone or pod.has_ended else zone.running.add)(pod.uid)
        elif lost >= now - WINDOW and pod.uid not in zone.lost:
            zone.lose(pod.uid, lost)
            if news:
                zone.remember(now)
        else:
            zone.running.discard(pod.uid)

    def look(self, there: set[str], now: float) -> None:
        """Record which pods exist, by uid, once all of them were seen."""
        for zone in self.zones.values():
            zone.running &= there
            zone.remember(now)

    def avoided(self, share: int, seconds: int, now: float) -> tuple[str, ...]:
        """Return the zones that had lost at least a share of their spot pods, in percent, in the last `seconds`.

        At most MOST_AVOIDED.
        """
        found = sorted(name for name, zone in self.zones.items() if zone.last_loss_of(share) > now - seconds)
        return tuple(found[:MOST_AVOIDED])


def time_of_loss(pod: Pod) -> float | None:
    """Return when the platform took a pod away, in seconds since 1970; None if it did not."""
    disruption = pod.disruption
    if disruption is None or disruption.reason == BY_OTHER_PODS:
        return None
    return seconds(disruption.time)
