"""Reads what bounds the memory of the pods of a namespace: its LimitRanges and ResourceQuotas.

They are read only for a pod whose memory may grow, and not cached: a quota changes with each pod.
"""

import asyncio
from http import HTTPStatus
from typing import Final

import msgspec

from webhook.kube.client import Api, ApiError, TooLargeError
from webhook.kube.paths import path_of
from webhook.objects.problem import Json
from webhook.objects.shape import Shape, type_of
from webhook.rules.pods import memory_bounds
from webhook.rules.pods.memory_bounds import Restrictions

LARGEST: Final = 256 * 1024  # bytes of a list
MOST: Final = 20  # LimitRanges, or ResourceQuotas
MOST_LIMITS: Final = 20  # of one LimitRange


async def of_namespace(api: Api, namespace: str, ready: asyncio.Event, patience: float) -> Restrictions:
    """Return the LimitRanges and ResourceQuotas of a namespace, once `ready` is set.

    They are unknown if there are too many, or if the server may not read them. Raise ApiError, and one of UNREACHABLE
    if there is no answer in `patience` seconds.
    """
    async with asyncio.timeout(patience):
        await ready.wait()
        limit_ranges, quotas = await asyncio.gather(
            _items_of(api, path_of("v1", "limitranges", namespace), memory_bounds.LIMIT_RANGE),
            _items_of(api, path_of("v1", "resourcequotas", namespace), memory_bounds.RESOURCE_QUOTA),
        )
    if limit_ranges is None or quotas is None:
        return Restrictions(are_known=False)
    if any(len((one.get("spec") or {}).get("limits") or ()) > MOST_LIMITS for one in limit_ranges):
        return Restrictions(are_known=False)
    return Restrictions(limit_ranges, quotas)


async def _items_of(api: Api, path: str, shape: Shape) -> tuple[Json, ...] | None:
    try:
        body = await api.body(path, {"limit": str(MOST)}, "application/json", LARGEST)
    except TooLargeError:
        return None
    except ApiError as error:
        if error.status == HTTPStatus.FORBIDDEN:
            return None
        raise
    found = msgspec.json.decode(body, type=type_of({"metadata": {"continue": str}, "items": [shape]}))
    if (found.get("metadata") or {}).get("continue"):
        return None
    return tuple(found.get("items") or ())
