"""When an Event says why a pod is not ready, and how often."""

import asyncio

from tests import virtual_time
from webhook.serving.readiness import PERIOD, REPEATED, THRESHOLD, report


def said_after(*stretches: tuple[list[str], float]) -> list[str]:
    """Return what is said while troubles last for some seconds each, one after the other."""
    said: list[str] = []
    troubles: list[str] = []

    async def work() -> None:
        reporting = asyncio.create_task(report(lambda: troubles, said.append))
        await asyncio.sleep(PERIOD / 2)
        for found, seconds in stretches:
            troubles[:] = found
            await asyncio.sleep(seconds)
        reporting.cancel()

    virtual_time.run(work())
    return said


def test_trouble_is_told_once_the_kubelet_has_noticed_it() -> None:
    noticed = THRESHOLD * PERIOD
    assert said_after((["no policy", "no certificate"], noticed - PERIOD)) == []
    assert said_after((["no policy", "no certificate"], noticed)) == ["no policy; no certificate"]


def test_trouble_that_lasts_is_told_again_as_it_is_then() -> None:
    every = REPEATED * PERIOD
    assert said_after((["caches not filled"], every), (["no policy"], every)) == ["caches not filled", "no policy"]


def test_trouble_that_passes_at_once_is_not_told() -> None:
    moment = (THRESHOLD - 1) * PERIOD
    assert said_after(*[(["no caBundle"], moment), ([], moment)] * 5) == []
