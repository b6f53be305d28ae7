"""Pass the events of watches on, and say after each list what of it no longer exists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from webhook.accounts.cached import CachedJob, CachedJobSet, CachedRoot
from webhook.accounts.cached_account import CachedAccount
from webhook.kube import terminal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from webhook.pods.pods import Pod

Cached = TypeVar("Cached", CachedJob, CachedJobSet, CachedRoot, CachedAccount)


class PodObserver:
    """Passes the events of the watch of pods on; `see_only` takes the uids of all pods that exist, after a list."""

    def __init__(
        self,
        seen: Callable[..., None],
        deleted: Callable[[Pod], None],
        see_only: Callable[[set[str]], Awaitable[None]],
        forget: Callable[[set[str]], Awaitable[None]],
    ) -> None:
        self.seen = seen
        self.deleted = deleted
        self.see_only = see_only
        self.forget = forget
        self.there: set[str] = set()  # uids

    async def forget_namespaces(self, namespaces: set[str]) -> None:
        """Forget the pods of namespaces that are not opted in any more."""
        await self.forget(namespaces)

    def begin_list(self) -> None:
        """Forget which pods the last list had."""
        self.there = set()

    def listed(self, pod: Pod) -> None:
        """Record a pod that exists."""
        self.there.add(pod.uid)
        self.seen(pod, news=False)

    async def end_list(self) -> None:
        """Record that no other pods exist."""
        there, self.there = self.there, set()
        await self.see_only(there)


class WorkloadObserver(Generic[Cached]):
    """Passes the events of the watch of the objects of a kind on; `forget_gone` is called after a list.

    `known_ended`: the uids of the objects that are known to have ended; those that a list does not have leave it.
    `has_listed`: whether the list was read before, so that what is not known of an object now has happened since.
    """

    def __init__(
        self,
        seen: Callable[..., None],
        deleted: Callable[[Cached], None],
        forget_gone: Callable[[], Awaitable[None]],
        known_ended: set[str],
    ) -> None:
        self.seen: Callable[..., None] = seen
        self.deleted: Callable[[Cached], None] = deleted
        self.forget_gone = forget_gone
        self.known_ended = known_ended
        self.has_listed = False
        self.ended: set[str] = set()  # uids

    def begin_list(self) -> None:
        """Forget which workloads of the last list had ended."""
        self.ended = set()

    def listed(self, item: Cached) -> None:
        """Record an object that exists."""
        if terminal.condition_of(item) is not None:
            self.ended.add(item["metadata"]["uid"])
        self.seen(item, news=self.has_listed)

    async def forget_namespaces(self, namespaces: set[str]) -> None:
        """Do nothing: what is known of workloads is forgotten with their pods."""

    async def end_list(self) -> None:
        """Forget, after a gap in the watch, what was deleted."""
        self.has_listed = True
        self.known_ended &= self.ended
        await self.forget_gone()
