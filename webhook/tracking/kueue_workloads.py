"""The Workloads of Kueue: which of them admits the pods of an object, and why it was evicted."""

import time
from collections.abc import Callable
from typing import Final

from webhook.accounts import kueue
from webhook.accounts.kueue import Eviction, KueueWorkload
from webhook.kube.client import Api
from webhook.kube.informer import Informer, Scope
from webhook.objects.problem import Json
from webhook.pods.pods import Pod
from webhook.systems.kind_spec import controller_of

MOST_OF_ONE: Final = 20  # Workloads of one object that are kept; Kueue creates one, and a second as it scales

Owner = tuple[str, str]  # namespace and uid of the object that controls a Workload


class KueueWorkloads:
    """Watches the Workloads; without Kueue in the cluster there are none, and Kueue may be installed later.

    - `by_owner`: the Workloads that are not finished, by their owner, the oldest first.
    - `last`: the last eviction of an owner: a Workload that is admitted again does not say why it was evicted.
    - `changed`: called with a Workload that is new or has changed.
    """

    def __init__(self, api: Api, scope: Scope | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.changed: Callable[[KueueWorkload], None] = lambda _: None
        self.by_owner: dict[Owner, tuple[KueueWorkload, ...]] = {}
        self.last: dict[Owner, Eviction] = {}
        self.unlisted: dict[tuple[str, str], KueueWorkload] = {}  # those that a list being read has not had yet
        self.informer = Informer(
            api,
            kueue.LIST,
            kueue.read,
            shape=kueue.READ,
            query={},
            stored=False,
            name="kueue-workloads",
            scope=scope,
            clock=clock,
        )
        self.informer.observers.append(self)

    def begin_list(self) -> None:
        """Note which Workloads are known: those that the list lacks were deleted."""
        self.unlisted = {(one.namespace, one.name): one for same in self.by_owner.values() for one in same}

    def listed(self, item: KueueWorkload) -> None:
        """Record a Workload that exists, after a gap in the watch."""
        known = self.unlisted.pop((item.namespace, item.name), None)
        if known is not None and known.owner != item.owner:  # another one of the same name
            self.deleted(known)
        self.seen(item)

    async def end_list(self) -> None:
        """Forget the Workloads that the list lacks."""
        for one in self.unlisted.values():
            self.deleted(one)
        self.unlisted = {}

    def seen(self, item: KueueWorkload) -> None:
        """Record the current state of a Workload."""
        owner = (item.namespace, item.owner)
        if not item.owner or item.finished:
            self.deleted(item)
            return
        same = (*self.others(item), item)
        self.by_owner[owner] = tuple(sorted(same, key=lambda one: (one.created, one.name)))[-MOST_OF_ONE:]
        known = self.last.get(owner)
        if item.eviction is not None and (known is None or known.time != item.eviction.time):
            self.last[owner] = item.eviction
        self.changed(item)

    def deleted(self, item: KueueWorkload) -> None:
        """Record that a Workload was deleted, or is finished."""
        owner = (item.namespace, item.owner)
        if left := self.others(item):
            self.by_owner[owner] = left
        else:
            self.by_owner.pop(owner, None)
            self.last.pop(owner, None)

    async def forget_namespaces(self, namespaces: set[str]) -> None:
        """Forget the Workloads of namespaces that are not opted in any more."""
        self.by_owner = {key: same for key, same in self.by_owner.items() if key[0] not in namespaces}
        self.last = {key: one for key, one in self.last.items() if key[0] not in namespaces}
        self.unlisted = {key: one for key, one in self.unlisted.items() if key[0] not in namespaces}

    def others(self, item: KueueWorkload) -> tuple[KueueWorkload, ...]:
        """Return the other Workloads of the owner of a Workload."""
        return tuple(one for one in self.by_owner.get((item.namespace, item.owner), ()) if one.name != item.name)

    @property
    def is_behind(self) -> bool:
        """Whether evictions may not be known yet: the watch has a gap, and Kueue may be installed."""
        return not (self.informer.live or self.informer.missing)

    def of(self, root: Json) -> KueueWorkload | None:
        """Return the newest Workload of an object, or of the object that controls it; None if there is none."""
        for owner in _owners_of(root):
            same = self.by_owner.get(owner)
            if same:
                return same[-1]
        return None

    def reason_of(self, root: Json, pod: Pod) -> str:
        """Return the reason of the eviction that ended a pod of an object, which its Job has deleted; empty if none."""
        for owner in _owners_of(root):
            eviction = self.last.get(owner)
            if eviction is not None:
                return eviction.reason if kueue.has_ended(pod, eviction) else ""
        return ""


def _owners_of(root: Json) -> tuple[Owner, ...]:
    """Return who may own the Workload of an object: the object itself, or its controller, such as a TrainJob."""
    metadata, controller = root["metadata"], controller_of(root)
    own = (metadata["namespace"], metadata["uid"])
    return (own,) if controller is None else (own, (metadata["namespace"], controller.uid))
