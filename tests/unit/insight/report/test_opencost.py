"""Prices of OpenCost: what is asked of Prometheus, and what an attempt costs by its answers."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.unit.insight.report.facts import GIB, HOUR, MONDAY, at, attempt
from webhook.history.record import AttemptRecord
from webhook.insight.report import opencost
from webhook.insight.report.known import Price, PriceOf
from webhook.insight.report.opencost import PricesUnreadableError, Source

START = MONDAY.timestamp()
ANSWER = {"status": "success", "data": {"resultType": "matrix", "result": []}}
Handler = Callable[[web.Request], web.Response]


@asynccontextmanager
async def served(answer: Handler) -> AsyncIterator[str]:
    async def handle(request: web.Request) -> web.Response:
        return answer(request)

    app = web.Application()
    app.router.add_get("/api/v1/query_range", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def asked(answer: Handler, *, days: float = 1, **files: Path) -> PriceOf:
    async def ask() -> PriceOf:
        async with served(answer) as url:
            return await opencost.prices(Source(url, **files), START, START + days * 24 * HOUR)

    return asyncio.run(ask())


def series(node: str, *values: tuple[float, str]) -> dict[str, Any]:
    points = [(START + hours * HOUR, value) for hours, value in values]
    return {"metric": {"node": node}, "values": points}


def answers(**by_metric: list[dict[str, Any]]) -> Handler:
    def answer(request: web.Request) -> web.Response:
        found = [one for metric, one in by_metric.items() if f"({metric}[" in request.query["query"]]
        return web.json_response({**ANSWER, "data": {"resultType": "matrix", "result": found[0] if found else []}})

    return answer


def on(node: str, **fields: Any) -> AttemptRecord:
    return attempt(node=node, **{"resources": {"cpu": 2.0, "memory": 4.0 * GIB}, **fields})


ALL_DAY = answers(
    node_cpu_hourly_cost=[series("a", *((hour, "0.03") for hour in range(1, 25)))],
    node_ram_hourly_cost=[series("a", *((hour, "0.004") for hour in range(1, 25)))],
    node_gpu_hourly_cost=[series("a", *((hour, "0.95") for hour in range(1, 25)))],
)


def test_an_attempt_costs_its_cores_its_gib_and_its_gpus_on_its_node() -> None:
    price_of = asked(ALL_DAY)
    assert price_of(on("a", hours=2)).paid == pytest.approx(2 * (2 * 0.03 + 4 * 0.004))
    assert price_of(on("a", hours=1, resources={"nvidia.com/gpu": 4.0})).paid == pytest.approx(4 * 0.95)
    assert price_of(on("a", hours=1, resources={"example.com/fpga": 1.0})).paid == 0.0
    assert price_of(on("a")).on_demand is None


def test_the_price_of_a_node_that_prometheus_does_not_know_is_not_known() -> None:
    assert asked(ALL_DAY)(on("b")) == Price(None, None)


def test_the_price_of_an_attempt_whose_requests_nobody_knows_is_not_known() -> None:
    price_of = asked(ALL_DAY)
    assert price_of(on("a", resources={})) == Price(0.0, None)
    assert price_of(on("a", resources={}, uid="")) == Price(None, None)


def test_an_attempt_that_did_not_run_costs_nothing() -> None:
    assert asked(ALL_DAY)(on("", hours=0)) == Price(0.0, None)


def test_a_price_that_changes_counts_as_long_as_it_held() -> None:
    """A point has the mean of the step before it, here of about three minutes."""
    step = 24 * HOUR / 480
    cheap = [(hours / 20, "1.0" if hours <= 9 * 20 else "3.0") for hours in range(1, 24 * 20)]
    table = {("a", "cpu"): ([START + hours * HOUR for hours, _ in cheap], [float(price) for _, price in cheap])}
    price_of = opencost.by_table(table, int(step))
    assert price_of(attempt(node="a", hours=4, end=11, resources={"cpu": 1.0})).paid == pytest.approx(
        2 * 1 + 2 * 3, rel=0.01
    )


def test_an_attempt_outside_all_points_has_the_nearest_price() -> None:
    price_of = asked(answers(node_cpu_hourly_cost=[series("a", (20, "1.0"), (22, "5.0"))]))
    assert price_of(attempt(node="a", hours=1, end=2, resources={"cpu": 1.0})).paid == 1.0


def test_the_questions_are_about_the_time_and_bounded_in_points(tmp_path: Path) -> None:
    seen: list[tuple[Any, str]] = []

    def answer(request: web.Request) -> web.Response:
        seen.append((dict(request.query), request.headers.get("Authorization", "")))
        return ALL_DAY(request)

    token = tmp_path / "token"
    token.write_text("secret\n")
    asked(answer, days=365, token_file=token)
    assert len(seen) == 3
    for query, authorization in seen:
        assert authorization == "Bearer secret"
        assert (float(query["end"]) - float(query["start"])) / float(query["step"]) <= opencost.MOST_POINTS
    step = seen[0][0]["step"]
    assert seen[0][0]["query"] == f"avg by (node) (avg_over_time(node_cpu_hourly_cost[{step}s]))"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (lambda _: web.Response(status=401, text="who are you"), "it answers 401, and not as Prometheus does"),
        (lambda _: web.json_response({"status": "error", "error": "too many"}, status=422), "it answers 422 too many"),
        (lambda _: web.json_response(ANSWER), "has no node_cpu_hourly_cost, .*; let it scrape OpenCost"),
        (lambda _: web.Response(body=b"x" * 2000), "more than 0 MiB; .*ask for less time"),
        (lambda _: web.Response(status=302, headers={"Location": "http://127.0.0.1:1/"}), "it answers 302"),
    ],
)
def test_a_prometheus_that_gives_no_prices_is_an_error_that_says_why(
    answer: Handler, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opencost, "LARGEST", 1000)
    with pytest.raises(PricesUnreadableError, match=why):
        asked(answer)


def test_a_prometheus_that_is_not_there_is_an_error_that_names_it() -> None:
    with pytest.raises(PricesUnreadableError, match=r"Prometheus http://127.0.0.1:1 cannot be asked"):
        asyncio.run(opencost.prices(Source("http://127.0.0.1:1"), START, START + HOUR))


@pytest.mark.parametrize("content", ["", "two words", "é", "x" * 20_000])
def test_a_file_without_a_token_is_an_error_before_anything_is_sent(content: str, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(content)
    with pytest.raises(PricesUnreadableError, match="token has no bearer token; name other files"):
        asked(lambda _: pytest.fail("asked"), token_file=token)


def test_certificates_that_cannot_be_read_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(PricesUnreadableError, match="name other files"):
        asked(lambda _: pytest.fail("asked"), ca_file=tmp_path / "missing.pem")


def test_values_that_are_no_prices_are_left_out() -> None:
    odd = answers(
        node_cpu_hourly_cost=[
            series("a", (1, "NaN"), (2, "-1"), (3, "+Inf"), (10, "2.0")),
            {"metric": {}, "values": [(START, "9")]},
        ]
    )
    assert asked(odd)(attempt(node="a", resources={"cpu": 1.0})).paid == 2.0
    assert at(0) == "2026-11-16T00:00:00Z"
