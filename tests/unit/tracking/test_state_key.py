"""The controller makes the key once, both programs use the one in the Secret, and say so if it cannot be used."""

import asyncio
import base64
from typing import Any, cast

import pytest

from tests.virtual_time import run
from webhook.kube.client import ApiError
from webhook.kube.state_key import SIZE
from webhook.objects.problem import Json
from webhook.tracking.state_key import SECRET, SharedStateKey, key_in


class Api:
    """Stores the Secrets that are created, and lets the watch deliver them; `errors`: what the next calls raise."""

    def __init__(self, *errors: ApiError) -> None:
        self.errors = [*errors]
        self.created: list[Json] = []
        self.key = SharedStateKey(cast(Any, self), "ops")

    async def create(self, path: str, root: Json) -> None:
        assert path == "/api/v1/namespaces/ops/secrets"
        if self.errors:
            raise self.errors.pop(0)
        self.created.append(root)
        see(self.key, key_in(root))


def shared() -> SharedStateKey:
    return Api().key


def see(key: SharedStateKey, stored: bytes | None) -> None:
    """Let the watch deliver the Secret with a key; None: that it was deleted."""
    key.secrets.items.clear()
    if stored is not None:
        key.secrets.items["ops", SECRET] = stored
    key.secrets.synced.set()
    key.secrets.notify()


def kept(api: Api, stored: bytes | None, seconds: float = 60.0) -> list[Json]:
    """Return what the controller creates in some seconds; `stored`: the key that there is, None without a Secret."""

    async def work() -> None:
        see(api.key, stored)
        task = asyncio.create_task(api.key.keep())
        await asyncio.sleep(seconds)
        task.cancel()

    run(work())
    return api.created


def test_the_controller_creates_the_secret_if_there_is_none_and_uses_its_key() -> None:
    api = Api()
    (created,) = kept(api, None)
    assert (created["metadata"]["name"], created["immutable"]) == (SECRET, True)
    assert api.key.key == key_in(created)


@pytest.mark.parametrize("stored", [b"", b"a" * SIZE])
def test_the_controller_leaves_a_secret_alone(stored: bytes) -> None:
    assert kept(Api(), stored) == []


def test_a_replica_that_was_slower_creates_nothing() -> None:
    assert kept(Api(ApiError(409, "exists")), None, seconds=1.5) == []


def test_the_controller_tries_again_after_an_error() -> None:
    assert len(kept(Api(ApiError(403, "forbidden"), ApiError(500, "broken")), None)) == 1


def test_a_key_stays_in_use_until_there_is_another_secret() -> None:
    key = shared()
    see(key, b"a" * SIZE)
    see(key, None)
    assert key.key == b"a" * SIZE


def test_without_a_secret_a_process_believes_only_itself() -> None:
    mark = shared().mark("uid", "restarts 1")
    assert shared().counted("uid", mark) == ""


@pytest.mark.parametrize(
    "data", [None, {}, {"key": ""}, {"key": "no base64"}, {"key": base64.b64encode(b"short").decode()}, {"other": "a"}]
)
def test_a_secret_without_a_usable_key_is_named_with_the_remedy(data: Json | None) -> None:
    key = shared()
    see(key, key_in({"data": data}))
    assert key.trouble == f"the Secret ops/{SECRET} has no key of 32 bytes; delete it"


def test_a_secret_that_does_not_exist_is_named() -> None:
    key = shared()
    see(key, None)
    assert key.trouble == f"the Secret ops/{SECRET} does not exist yet"
    see(key, b"a" * SIZE)
    assert key.trouble is None
