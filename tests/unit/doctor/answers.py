"""An API for tests of what is read: for each path its objects, or an error; 404 for a path without either."""

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import msgspec

from tests.unit.doctor.healthy import NOW
from webhook.kube.client import ApiError
from webhook.objects.problem import Json

Answer = Json | list[Json] | ApiError


class Answers:
    """`paths`: the answer for each path, of a list its objects. `created`: what was created, with its path."""

    def __init__(self, paths: dict[str, Answer], otherwise: ApiError | None = None) -> None:
        self.paths = paths
        self.otherwise = otherwise or ApiError(404, "not found")
        self.created: list[tuple[str, Json]] = []
        self.queries: list[tuple[str, Any]] = []

    def answer(self, path: str) -> Any:
        found = self.paths.get(path, self.otherwise)
        if isinstance(found, ApiError):
            raise found
        return found

    async def get(self, path: str, query: Any = None, accept: str = "", kind: Any = None) -> Any:  # noqa: ARG002 - as in Api
        return self.answer(path)

    async def get_dated(self, path: str) -> tuple[Any, datetime]:
        return self.answer(path), NOW

    async def find(self, path: str) -> Json | None:
        try:
            return dict(self.answer(path))
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    async def body(self, path: str, *_: Any) -> bytes:
        return msgspec.json.encode(self.answer(path))

    async def objects(self, path: str, query: Json, accept: str = "", kind: Any = None) -> AsyncIterator[Json]:  # noqa: ARG002 - as in Api
        self.queries.append((path, query or accept))
        found = self.paths.get(path, [] if self.otherwise.status == 404 else self.otherwise)
        if isinstance(found, ApiError):
            raise found
        for one in found:
            assert isinstance(one, dict)
            yield dict(one)

    async def create(self, path: str, root: Json, *, dry_run: bool = False) -> Json:
        self.created.append((path, {**root, "dryRun": dry_run}))
        return dict(self.answer(path))
