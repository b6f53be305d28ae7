"""What the TrainJobs of Kubeflow Trainer say of their training, and when that was seen."""

import time
from collections.abc import Callable
from typing import NamedTuple

from webhook.kube.client import Api
from webhook.kube.informer import Informer, Scope
from webhook.objects.problem import Json
from webhook.systems.kind_spec import OwnerReference, controller_of
from webhook.systems.trainer import progress
from webhook.systems.trainer.progress import TrainerStatus
from webhook.systems.trainer.spec import TRAIN_JOB

Named = tuple[str, str]  # namespace and name of a TrainJob


class Told(NamedTuple):
    """What a TrainJob says, and when it was seen to say something new, in seconds of a monotonic clock."""

    status: TrainerStatus
    at: float


class TrainJobs:
    """Watches the TrainJobs; without the Trainer in the cluster there are none, and it may be installed later.

    `told`: what those say that have said something. `clock`: monotonic, in seconds.
    """

    def __init__(self, api: Api, scope: Scope | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.told: dict[Named, Told] = {}
        self.unlisted: set[Named] = set()  # those that a list being read has not had yet
        self.informer = Informer(
            api, TRAIN_JOB.path(), progress.read, shape=progress.READ, query={}, stored=False, scope=scope, clock=clock
        )
        self.informer.observers.append(self)

    def begin_list(self) -> None:
        """Note which TrainJobs are known: those that the list lacks were deleted."""
        self.unlisted = set(self.told)

    def listed(self, item: TrainerStatus) -> None:
        """Record a TrainJob that exists, after a gap in the watch: it may have told something meanwhile."""
        self.unlisted.discard((item.namespace, item.name))
        self._put(item)

    async def end_list(self) -> None:
        """Forget the TrainJobs that the list lacks."""
        for name in self.unlisted:
            self.told.pop(name, None)

    def seen(self, item: TrainerStatus) -> None:
        """Record the current state of a TrainJob."""
        known = self.told.get((item.namespace, item.name))
        if known is None or known.status != item:
            self._put(item)

    def deleted(self, item: TrainerStatus) -> None:
        """Record that a TrainJob was deleted."""
        self.told.pop((item.namespace, item.name), None)

    async def forget_namespaces(self, namespaces: set[str]) -> None:
        """Forget the TrainJobs of namespaces that are not opted in any more."""
        self.told = {name: told for name, told in self.told.items() if name[0] not in namespaces}

    def of(self, job_set: Json) -> Told | None:
        """Return what the TrainJob of a JobSet says; None if it has none, or has said nothing.

        While it is not watched, it may be saying something new just now.
        """
        owner = train_job_of(job_set)
        told = None if owner is None else self.told.get((job_set["metadata"]["namespace"], owner.name))
        if owner is None or told is None or told.status.uid != owner.uid:
            return None
        return told if self.informer.live else told._replace(at=self.clock())

    def _put(self, item: TrainerStatus) -> None:
        if item.time:
            self.told[item.namespace, item.name] = Told(item, self.clock())
        else:
            self.deleted(item)


def train_job_of(job_set: Json) -> OwnerReference | None:
    """Return the TrainJob that controls a JobSet; None if there is none."""
    owner = controller_of(job_set)
    is_one = owner is not None and (owner.group, owner.kind) == (TRAIN_JOB.group, TRAIN_JOB.kind)
    return owner if is_one else None
