"""An API server that is busy: it refuses requests with 429 or another error, and says when it wants them again."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop
import yaml
from aiohttp import web
from structlog.testing import capture_logs

from tests.metrics import counted
from webhook.kube import client
from webhook.kube.busy import LOGGED_EVERY, Busy
from webhook.kube.client import LONGEST_WAIT, MOST_REPEATS, SHORTEST_WAIT, Api, ApiError, wait_after

JOB = "/apis/batch/v1/namespaces/ml/jobs/train"
JOBS = "/apis/batch/v1/jobs"
Answer = tuple[int, dict[str, str]]
REFUSED: Answer = (429, {"Retry-After": "3"})
GOOD: Answer = (200, {})


class Server:
    """An API server that answers its requests with the next of `answers`, then well; a list has three pages."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []  # the method, and the page of a list

    async def answer(self, request: web.Request) -> web.Response:
        page = request.query.get("continue", "")
        self.asked.append(request.method + page)
        status, headers = self.answers.pop(0) if self.answers else GOOD
        if status != GOOD[0]:
            return web.Response(status=status, headers=headers, text="Too many requests, please try again later.")
        following = str(int(page or 0) + 1) if request.path == JOBS and page != "2" else ""
        items = [{"metadata": {"name": f"train-{page or 0}"}}]
        return web.json_response({"metadata": {"resourceVersion": "7", "continue": following}, "items": items})


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that the client would have waited; it does not wait."""
    found: list[float] = []

    def at_once(seconds: float) -> float:
        found.append(seconds)
        return 0.0

    monkeypatch.setattr(client, "spread", at_once)
    return found


def served(folder: Path, server: Server, call: Callable[[Api], Awaitable[Any]], **how: Any) -> Any:
    """Return what a call of the client returns while a server answers it."""

    async def work() -> Any:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", server.answer)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        file = folder / "kubeconfig"
        config = {
            "current-context": "busy",
            "contexts": [{"name": "busy", "context": {"cluster": "busy", "user": "busy"}}],
            "clusters": [{"name": "busy", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
            "users": [{"name": "busy", "user": {"token": "none"}}],
        }
        file.write_text(yaml.safe_dump(config))
        try:
            async with await Api.connect(str(file), **how) as api:
                return await call(api)
        finally:
            await runner.cleanup()

    return uvloop.run(work())


async def names(api: Api) -> list[str]:
    return [item["metadata"]["name"] async for item in api.objects(JOBS, {})]


@pytest.mark.parametrize("method", ["GET", "PATCH", "POST", "PUT"])
def test_a_refused_request_is_sent_again_after_the_seconds_that_the_api_server_says(
    tmp_path: Path, waits: list[float], method: str
) -> None:
    calls: dict[str, Callable[[Api], Awaitable[Any]]] = {
        "GET": lambda api: api.get(JOB),
        "PATCH": lambda api: api.patch(JOB, []),
        "POST": lambda api: api.create(JOB, {}),
        "PUT": lambda api: api.replace(JOB, {}),
    }
    server = Server(REFUSED, (503, {"Retry-After": "1"}))
    assert served(tmp_path, server, calls[method])["metadata"]["resourceVersion"] == "7"
    assert server.asked == [method] * 3
    assert waits == [3.0, 1.0]


def test_a_request_that_is_refused_again_and_again_fails_after_a_limited_number_of_tries(
    tmp_path: Path, waits: list[float]
) -> None:
    server = Server(*[REFUSED] * 100)
    with pytest.raises(ApiError, match="429 Too many requests, please try again later"):
        served(tmp_path, server, lambda api: api.get(JOB))
    assert len(server.asked) == 1 + MOST_REPEATS
    assert len(waits) == MOST_REPEATS


@pytest.mark.parametrize(
    ("status", "header", "wait"),
    [
        (429, "3", 3.0),
        (500, "1", 1.0),
        (429, "0", SHORTEST_WAIT),
        (429, "9" * 500, LONGEST_WAIT),
        (429, "", None),
        (429, "Fri, 31 Dec 2099 23:59:59 GMT", None),
        (429, "-1", None),
        (404, "3", None),
        (409, "3", None),
    ],
)
def test_an_error_says_how_long_to_wait_only_if_the_api_server_is_busy(
    tmp_path: Path, status: int, header: str, wait: float | None
) -> None:
    server = Server(*[(status, {"Retry-After": header} if header else {})] * 20)
    with pytest.raises(ApiError) as caught:
        served(tmp_path, server, lambda api: api.get(JOB), repeats=0)
    assert (caught.value.status, caught.value.retry_after) == (status, wait)
    assert server.asked == ["GET"]


def test_clients_that_are_refused_together_do_not_come_back_together() -> None:
    waits = {wait_after(ApiError(429, "no", 4.0)) for _ in range(100)}
    assert len(waits) > 50
    assert all(wait is not None and 4.0 <= wait <= 6.0 for wait in waits)
    assert wait_after(ApiError(429, "no")) is wait_after(TimeoutError()) is None


def test_a_list_that_is_refused_midway_continues_with_its_next_page(tmp_path: Path, waits: list[float]) -> None:
    server = Server(GOOD, REFUSED, REFUSED, GOOD, REFUSED)
    assert served(tmp_path, server, names, repeats=0) == ["train-0", "train-1", "train-2"]
    assert server.asked == ["GET", *["GET1"] * 3, *["GET2"] * 2]
    assert waits == [3.0] * 3


def test_a_list_that_is_refused_again_and_again_fails(tmp_path: Path, waits: list[float]) -> None:
    server = Server(GOOD, *[REFUSED] * 100)
    with pytest.raises(ApiError, match="429"):
        served(tmp_path, server, names, repeats=0)
    assert len(server.asked) == 2 + MOST_REPEATS
    assert len(waits) == MOST_REPEATS


def test_without_repeats_a_look_up_is_refused_at_once(tmp_path: Path, waits: list[float]) -> None:
    server = Server(REFUSED)
    with pytest.raises(ApiError, match="429"):
        served(tmp_path, server, lambda api: api.find(JOB), repeats=0)
    assert server.asked == ["GET"]
    assert not waits


def test_refused_requests_are_counted_and_logged_once_in_a_while() -> None:
    now = 0.0
    busy, before = Busy(lambda: now), counted("retry_policy_api_busy_total", method="PATCH")
    with capture_logs() as lines:
        for _ in range(50):
            busy("PATCH", 3.0)
        now = LOGGED_EVERY
        busy("GET", 2.0)
    assert counted("retry_policy_api_busy_total", method="PATCH") == before + 50
    assert [(line["refused"], line["last"], line["wants_it_after"]) for line in lines] == [
        (1, "PATCH", 3.0),
        (50, "GET", 2.0),
    ]
    assert lines[0]["event"].startswith("the API server is busy")


def test_each_refusal_is_reported(tmp_path: Path, waits: list[float]) -> None:
    found: list[tuple[str, float]] = []
    served(tmp_path, Server(REFUSED), lambda api: api.patch(JOB, []), on_busy=lambda *what: found.append(what))
    assert found == [("PATCH", 3.0)]
    assert waits == [3.0]


def test_a_client_that_waits_can_be_cancelled(tmp_path: Path) -> None:
    async def cancelled(api: Api) -> bool:
        call = asyncio.create_task(api.get(JOB))
        while not server.asked:  # noqa: ASYNC110 - another task sets it
            await asyncio.sleep(0.01)
        call.cancel()
        await asyncio.wait({call})
        return call.cancelled()

    server = Server(*[REFUSED] * 100)
    assert served(tmp_path, server, cancelled)
