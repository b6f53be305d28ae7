"""Takes Jobs that have ended out of the cache: clusters keep far more of them than of Jobs that run.

A look-up of such a Job asks the API, as for any object that is not cached. A list or a change brings it back into the
cache; then it leaves again.
"""

import time
from collections.abc import Callable
from functools import partial
from itertools import takewhile
from typing import Final, NamedTuple

from webhook.accounts.cached import CachedJob
from webhook.kube import terminal
from webhook.kube.bulkhead import Bulkhead, itself
from webhook.kube.informer import Informer

STAYS: Final = 60.0  # seconds that a Job stays after its end, and between two looks at one that is still needed

Name = tuple[str, str]  # namespace and name


class EndedJob(NamedTuple):
    """A Job that has ended: its uid, and when to look at it; seconds of a monotonic clock."""

    uid: str
    next: float


class FinishedJobs:
    """The cached Jobs that have ended, by when to look at them, the next first.

    `is_needed`: whether anything is left to do for a Job; `left` is called with a Job that has left. `clock`:
    monotonic, in seconds.
    """

    def __init__(
        self,
        jobs: Informer[CachedJob],
        *,
        is_needed: Callable[[CachedJob], bool],
        left: Callable[[CachedJob], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.jobs = jobs
        self.is_needed = is_needed
        self.left = left
        self.clock = clock
        self.ended: dict[Name, EndedJob] = {}
        self.bulkhead = Bulkhead("finished Jobs", clock)
        jobs.observers.append(self)

    def begin_list(self) -> None:
        """Do nothing: which Jobs exist is in the informer."""

    def listed(self, job: CachedJob) -> None:
        """Take a Job of a list."""
        self.seen(job)

    async def end_list(self) -> None:
        """Forget the Jobs that were deleted."""
        self.ended = {name: ended for name, ended in self.ended.items() if name in self.jobs.items}

    def seen(self, job: CachedJob) -> None:
        """Take a Job that was created or has changed."""
        name, uid = _name_of(job), job["metadata"]["uid"]
        known = self.ended.get(name)
        if terminal.condition_of(job) is None or (known is not None and known.uid != uid):
            self.ended.pop(name, None)
        if terminal.condition_of(job) is not None and name not in self.ended:
            self.ended[name] = EndedJob(uid, self.clock() + STAYS)

    def deleted(self, job: CachedJob) -> None:
        """Take the last state of a deleted Job."""
        self.ended.pop(_name_of(job), None)

    async def forget_namespaces(self, namespaces: set[str]) -> None:
        """Forget the Jobs of namespaces that are not opted in any more."""
        self.ended = {name: ended for name, ended in self.ended.items() if name[0] not in namespaces}

    async def look(self) -> None:
        """Let the Jobs leave whose time has come, and that nothing needs any more."""
        now = self.clock()
        due = [name for name, _ in takewhile(lambda one: one[1].next <= now, self.ended.items())]
        await self.bulkhead.each(due, partial(self.look_at, now), itself)

    def look_at(self, now: float, name: Name) -> None:
        """Let a Job leave, unless something needs it; one that makes this raise stays until it changes."""
        ended = self.ended.get(name)
        if ended is None or ended.next > now:
            return  # meanwhile it was deleted, and another Job may have its name
        job = self.jobs.get(*name)
        del self.ended[name]
        if job is not None and self.is_needed(job):
            self.ended[name] = EndedJob(ended.uid, now + STAYS)
        elif job is not None:
            del self.jobs.items[name]
            self.left(job)


def _name_of(job: CachedJob) -> Name:
    return job["metadata"]["namespace"], job["metadata"]["name"]
