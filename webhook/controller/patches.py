"""Writes marks on counted pods: the JSON Patches that fail if another writer was first."""

from datetime import UTC, datetime
from http import HTTPStatus
from typing import Final

from webhook import metrics
from webhook.accounts.account import KEPT, KEPT_RESTARTED, Account
from webhook.accounts.tracker import Tracker
from webhook.kube import names
from webhook.kube.client import CHANGED, Api, ApiError
from webhook.kube.state_key import StateKey
from webhook.objects.patch import pointer
from webhook.objects.problem import Json, Path
from webhook.pods.pods import Pod
from webhook.pods.restarts import MARK
from webhook.systems import core

ANNOTATIONS: Final[Path] = ("metadata", "annotations")


def _annotated(key: str, value: str, *, first: bool) -> list[Json]:
    if first:
        path = pointer(ANNOTATIONS)
        return [{"op": "test", "path": path, "value": None}, {"op": "add", "path": path, "value": {key: value}}]
    return [{"op": "add", "path": pointer((*ANNOTATIONS, key)), "value": value}]


async def mark_counted(api: Api, key: StateKey, account: Account, tracker: Tracker) -> None:
    """Mark pods that an account has counted, so that it can forget their ids; raise what `Api` raises."""
    if len(account.recent) > KEPT:
        for pod in list(tracker.staying()):
            await mark(api, key, pod)
    oldest = list(account.restarted.items())[:-KEPT_RESTARTED]
    for pod, number in list(tracker.unmarked(oldest)):
        await mark(api, key, pod, f"{MARK}{number}")


async def mark(api: Api, key: StateKey, pod: Pod, restarts: str = "") -> None:
    """Annotate a counted pod that still exists, so that the account can forget its id; raise what `Api` raises.

    `restarts`: how many of its restarts in place are counted, if its end is not.
    """
    counted = restarts or datetime.now(UTC).isoformat(timespec="milliseconds")
    test = {"op": "test", "path": "/metadata/uid", "value": pod.uid}
    marks = [test, *_annotated(names.COUNTED, key.mark(pod.uid, counted), first=not pod.annotated)]
    try:
        await api.patch(core.POD.path(pod.namespace, pod.name), marks)
    except ApiError as error:
        if error.status not in {HTTPStatus.NOT_FOUND, *CHANGED}:  # it was deleted, or the next pass marks it
            raise
    else:
        metrics.LEDGER_WRITES.labels("mark").inc()
