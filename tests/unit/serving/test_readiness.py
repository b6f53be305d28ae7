"""When an Event says why a pod is not ready, and how often."""

import asyncio

from tests import virtual_time
from webhook.serving.readiness import PERIOD, REPEATED, THRESHOLD, report


def reported_after(*stretches: tuple[list[str], float]) -> list[str]:
    """Return the messages that are reported while troubles last for some seconds each, one after the other."""
    reported: list[str] = []
    troubles: list[str] = []

    async def work() -> None:
        reporting = asyncio.create_task(report(lambda: troubles, reported.append))
        await asyncio.sleep(PERIOD / 2)
        for found, seconds in stretches:
            troubles[:] = found
            await asyncio.sleep(seconds)
        reporting.cancel()

    virtual_time.run(work())
    return reported


def test_trouble_is_reported_when_the_kubelet_has_noticed_it() -> None:
    noticed = THRESHOLD * PERIOD
    assert reported_after((["no policy", "no certificate"], noticed - PERIOD)) == []
    assert reported_after((["no policy", "no certificate"], noticed)) == ["no policy; no certificate"]


def test_lasting_trouble_is_reported_again_with_its_current_reason() -> None:
    every = REPEATED * PERIOD
    assert reported_after((["caches not filled"], every), (["no policy"], every)) == ["caches not filled", "no policy"]


def test_brief_trouble_is_not_reported() -> None:
    moment = (THRESHOLD - 1) * PERIOD
    assert reported_after(*[(["no caBundle"], moment), ([], moment)] * 5) == []
