"""Tracks the pods of one workload that have restarted in place, and which of their restarts an account lacks.

An account has counted as many restarts of a pod as it says itself, or as the pod's mark says, or all of them once it
has counted the pod's end.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from webhook.ledger.model.account import MOST_RESTARTED, Account, id_of
from webhook.ledger.model.pods import Pod

SOON: Final = 10  # restarts in place that are counted as soon as they are seen
LONGEST_DELAY: Final = 60.0  # seconds until the next ones are counted: a pod may restart for weeks


@dataclass(slots=True)
class RestartedPods:
    """The pods that have restarted in place, by uid, until they have failed, or are deleted and counted.

    - `gone`: those that were deleted. `open`: those with restarts that the last account lacks; in that order.
    - `by_id`: the uid of each by its id in an account. `counted`: what the last account says, by id.
    - `sums`: the restarts of those that exist and have not ended, added up as the Job controller does, by Job's uid.
    """

    pods: dict[str, Pod] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    open: dict[str, None] = field(default_factory=dict)
    by_id: dict[str, str] = field(default_factory=dict)
    counted: dict[str, int] = field(default_factory=dict)
    sums: Counter[str] = field(default_factory=Counter)

    def see(self, pod: Pod) -> None:
        """Record the current state of a pod; one that enters the account is counted with its end."""
        if pod.enters_account or pod.counted or pod.restarts is None:
            self.forget(pod.uid)
            return
        self.add_up(pod.uid, -1)
        self.pods[pod.uid] = pod
        self.add_up(pod.uid, 1)
        self.by_id[id_of(pod)] = pod.uid
        self.look(pod)

    def see_gone(self, uid: str) -> None:
        """Record that a pod was deleted that had not failed."""
        if uid in self.pods:
            self.add_up(uid, -1)
            self.gone.add(uid)
            self.look(self.pods[uid])

    def see_account(self, account: Account) -> None:
        """Record what an account has counted."""
        before, self.counted = self.counted, dict(account.restarted)
        for one in before.keys() | self.counted.keys():
            if before.get(one) != self.counted.get(one) and one in self.by_id:
                self.look(self.pods[self.by_id[one]])

    def look(self, pod: Pod) -> None:
        """Decide whether restarts of a pod are uncounted; forget a deleted pod if none are."""
        if uncounted(pod, self.counted) > 0:
            self.open.setdefault(pod.uid)
        else:
            self.open.pop(pod.uid, None)
            if pod.uid in self.gone:
                self.forget(pod.uid)

    def forget(self, uid: str) -> None:
        """Forget a pod."""
        self.add_up(uid, -1)
        pod = self.pods.pop(uid, None)
        if pod is not None:
            self.gone.discard(uid)
            self.open.pop(uid, None)
            del self.by_id[id_of(pod)]

    def forget_others(self, job_uid: str) -> None:
        """Forget the pods of other Jobs."""
        for uid in [uid for uid, pod in self.pods.items() if pod.job_uid != job_uid]:
            self.forget(uid)

    def forget_gone(self, job_uid: str) -> None:
        """Forget the deleted pods of a Job that was deleted too: there is nothing to count them for."""
        for uid in [uid for uid in self.gone if self.pods[uid].job_uid == job_uid]:
            self.forget(uid)

    def jobs_of_gone(self) -> dict[str, str]:
        """Return by uid the names of the Jobs whose pods were deleted."""
        return {self.pods[uid].job_uid: self.pods[uid].job for uid in self.gone}

    def uncounted(self, account: Account) -> Iterator[Pod]:
        """Yield pods with restarts that an account lacks: as many as it has room for."""
        found = (self.pods[uid] for uid in self.open)
        return islice((pod for pod in found if uncounted(pod, account.restarted) > 0), MOST_RESTARTED)

    def unmarked(self, counted: Iterable[tuple[str, int]]) -> Iterator[tuple[Pod, int]]:
        """Yield the pods that exist and whose mark says less than an account; `counted`: what that says, by id."""
        for one, number in counted:
            pod = self.pods.get(self.by_id.get(one, ""))
            is_there = pod is not None and pod.uid not in self.gone
            if pod is not None and is_there and pod.restarts is not None and pod.restarts.counted < number:
                yield pod, number

    def by_api(self, pod: Pod) -> int:
        """Return the restarts that the Job controller counts for a pod's Job: of it and of those that run beside it."""
        own = 0 if pod.restarts is None else pod.restarts.by_api
        return own + self.sums.get(pod.job_uid, 0) - self.share_of(pod.uid)

    def add_up(self, uid: str, sign: int) -> None:
        """Add what a pod adds to `sums`, or with the sign -1 subtract it."""
        share = sign * self.share_of(uid)
        if share:
            job_uid = self.pods[uid].job_uid
            self.sums[job_uid] += share
            if not self.sums[job_uid]:
                del self.sums[job_uid]

    def share_of(self, uid: str) -> int:
        """Return what a pod adds to `sums`."""
        pod = self.pods.get(uid)
        if pod is None or uid in self.gone or pod.has_ended or pod.restarts is None:
            return 0
        return pod.restarts.by_api


def uncounted(pod: Pod, counted: dict[str, int]) -> int:
    """Return how many restarts of a pod are not counted; `counted`: what an account says, by id."""
    if pod.restarts is None or pod.counted:
        return 0
    return pod.restarts.number - max(pod.restarts.counted, counted.get(id_of(pod), 0))


def delay(account: Account) -> float:
    """Return the seconds until the next restarts are counted: the more there were, the longer."""
    number = sum(account.in_place.values())
    return 0.0 if number <= SOON else min(LONGEST_DELAY, float(number))
