"""What a TrainJob says of its training in status.trainerStatus: that it gets on, not what it has saved. Pure.

The program tells the Trainer a percentage and the time by its own clock, and the Trainer writes them as they are. They
stay in the status when the next attempt begins. Source: pkg/apis/trainer/v1alpha1/trainjob_types.go,
pkg/statusserver/server.go and pkg/runtime/framework/plugins/trainjobstatus of Kubeflow Trainer 2.3.0. Whoever may write
the status of a TrainJob may write anything there.
"""

from typing import Final

import msgspec

from webhook.objects.patch import at
from webhook.objects.problem import Json
from webhook.objects.shape import Shape
from webhook.objects.times import seconds

# The fields that are decoded.
READ: Final[Shape] = {
    "metadata": dict.fromkeys(("namespace", "name", "uid", "resourceVersion"), str),
    "status": {"trainerStatus": dict},
}
SERVER: Final = "KUBEFLOW_TRAINER_SERVER_URL"  # a variable of the containers that may tell their progress
WHOLE: Final = 100  # the percentage of a training that has done all


class TrainerStatus(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What the status of a TrainJob says of its training.

    `percent`: how much of it is done, 0 to 100; None if it does not say so. `time`: when it was told, in seconds since
    1970 by the clock of the program; 0 if nothing was told, or no valid time of it.
    """

    namespace: str
    name: str
    uid: str
    percent: int | None = None
    time: float = 0.0


def read(root: Json) -> TrainerStatus:
    """Return what a TrainJob says of its training, whatever its status holds."""
    metadata, told = root["metadata"], ("status", "trainerStatus")
    percent = at(root, (*told, "progressPercentage"))
    return TrainerStatus(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        percent=percent if type(percent) is int and 0 <= percent <= WHOLE else None,
        time=seconds(at(root, (*told, "lastUpdatedTime"))) or 0.0,
    )


def may_tell(pod: Json) -> bool:
    """Return True if the Trainer lets a pod tell its progress."""
    variables = (one for container in pod["spec"].get("containers") or () for one in container.get("env") or ())
    return any(one.get("name") == SERVER for one in variables)
