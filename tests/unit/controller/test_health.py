"""The controller's port for probes and metrics."""

import asyncio
import socket
from contextlib import AsyncExitStack

import aiohttp
import pytest

from webhook.controller.app import listen, routes
from webhook.program.start import CannotStartError


def answers(troubles: list[str], *paths: str) -> list[tuple[int, str]]:
    """Return status and body of each path."""

    async def ask() -> list[tuple[int, str]]:
        async with AsyncExitStack() as stack, aiohttp.ClientSession() as client:
            address = await listen(stack, routes(lambda: troubles), "127.0.0.1", 0)
            found = []
            for path in paths:
                async with client.get(f"http://{address}{path}") as answer:
                    found.append((answer.status, await answer.text()))
            return found

    return asyncio.run(ask())


def test_it_is_ready_without_troubles_and_lives_with_them() -> None:
    assert answers([], "/healthz", "/readyz") == [(200, "ok\n"), (200, "ok\n")]
    found = answers(["no policy in force; correct it", "no API"], "/healthz", "/readyz", "/else")
    assert found[:2] == [(200, "ok\n"), (503, "no policy in force; correct it\nno API\n")]
    assert found[2][0] == 404


def test_the_metrics_are_those_of_the_program() -> None:
    ((status, text),) = answers([], "/metrics")
    assert status == 200
    assert "retry_policy_ledger_leading" in text


def test_an_address_that_is_taken_is_named_with_a_remedy() -> None:
    async def listen_there(port: int) -> None:
        async with AsyncExitStack() as stack:
            await listen(stack, routes(list), "127.0.0.1", port)

    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(CannotStartError, match="choose another host or port"),
    ):
        asyncio.run(listen_there(taken.getsockname()[1]))
