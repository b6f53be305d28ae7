"""Prices from a Prometheus that scrapes OpenCost: what a core, a GiB and a GPU of each node cost, hour by hour.

node_cpu_hourly_cost, node_ram_hourly_cost (per GiB) and node_gpu_hourly_cost are used, not node_total_hourly_cost: a
pod's share of the total would need the capacity that the node had, and a rule that weighs a core against a GiB and a
GPU. The three have that rule in them: OpenCost itself makes the cost of a pod of them.
"""

import ssl
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from math import ceil, isfinite
from pathlib import Path
from typing import Final, NamedTuple

import aiohttp
import msgspec

from webhook.history.record import AttemptRecord
from webhook.history.usage import GIB, HOUR
from webhook.insight.report.known import Price, PriceOf, has_unknown_requests
from webhook.objects.times import seconds

METRICS: Final = {"cpu": "node_cpu_hourly_cost", "memory": "node_ram_hourly_cost", "gpu": "node_gpu_hourly_cost"}
GPUS: Final = ("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe")  # what node_gpu_ prices
MOST_POINTS: Final = 500  # of a series
LEAST_STEP: Final = 60  # seconds
LARGEST: Final = 256 * 2**20  # bytes of an answer
TIMEOUT: Final = aiohttp.ClientTimeout(total=120)
LARGEST_TOKEN: Final = 16384  # bytes
OTHER: Final = "name another with --prometheus, or ask for less time with --since"


class PricesUnreadableError(Exception):
    """Prometheus cannot be asked for prices; the message says why, and what to do."""


class Source(NamedTuple):
    """A Prometheus; `token_file` has a bearer token, `ca_file` the certificates of its authority."""

    url: str
    token_file: Path | None = None
    ca_file: Path | None = None


class PrometheusSeries(msgspec.Struct):
    """A time series in an answer of Prometheus; `values`: pairs of time and value."""

    metric: dict[str, str]
    values: list[tuple[float, str]]


class PrometheusData(msgspec.Struct, rename={"kind": "resultType"}):
    """The data of an answer."""

    result: list[PrometheusSeries]


class PrometheusAnswer(msgspec.Struct):
    """An answer of Prometheus."""

    status: str
    data: PrometheusData | None = None
    error: str = ""


# By node and metric: the ends of the steps, and the mean price in each.
Table = dict[tuple[str, str], tuple[list[float], list[float]]]


async def prices(source: Source, since: float, until: float) -> PriceOf:
    """Return the price of attempts that ran between two times, in seconds since 1970; raise PricesUnreadableError."""
    step = max(LEAST_STEP, ceil((until - since) / MOST_POINTS))
    table: Table = {}
    found: dict[str, list[PrometheusSeries]] = {}
    try:
        headers = {} if source.token_file is None else {"Authorization": f"Bearer {_token_in(source.token_file)}"}
        context = ssl.create_default_context(cafile=source.ca_file) if source.ca_file is not None else True
    except (OSError, ValueError) as error:
        raise PricesUnreadableError(f"Prometheus {source.url}: {error}; name other files") from None
    try:
        async with aiohttp.ClientSession(timeout=TIMEOUT, headers=headers) as session:
            for resource, metric in METRICS.items():
                query = {
                    "query": f"avg by (node) (avg_over_time({metric}[{step}s]))",
                    "start": f"{since + step:.0f}",
                    "end": f"{until + step:.0f}",
                    "step": f"{step}",
                }
                path = f"{source.url.rstrip('/')}/api/v1/query_range"
                async with session.get(path, params=query, ssl=context, allow_redirects=False) as response:
                    found[resource] = _answer_in(await _body_of(response), response.status)
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
        raise PricesUnreadableError(
            f"Prometheus {source.url} cannot be asked: {error or type(error).__name__}; {OTHER}"
        ) from None
    for resource, series in found.items():
        _put(table, resource, series)
    if not table:
        raise PricesUnreadableError(
            f"Prometheus {source.url} has no {', '.join(METRICS.values())} in this time; let it scrape OpenCost"
        )
    return by_table(table, step)


async def _body_of(response: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    async for piece in response.content.iter_any():
        body += piece
        if len(body) > LARGEST:
            raise ValueError(f"its answer has more than {LARGEST // 2**20} MiB")
    return bytes(body)


_answer_of: Final = msgspec.json.Decoder(PrometheusAnswer)


def _answer_in(body: bytes, status: int) -> list[PrometheusSeries]:
    """Return the series in an answer; raise ValueError with what Prometheus says if there are none."""
    try:
        answer = _answer_of.decode(body)
    except ValueError:
        raise ValueError(f"it answers {status}, and not as Prometheus does: {body[:100]!r}") from None
    if answer.data is None:
        raise ValueError(f"it answers {status} {answer.error}")
    return answer.data.result


def _token_in(path: Path) -> str:
    """Return the bearer token in a file; raise ValueError if it has none, and OSError."""
    with path.open("rb") as opened:
        token = opened.read(LARGEST_TOKEN + 1).strip()
    text = token.decode("ascii", "replace")
    if not text or len(text) > LARGEST_TOKEN or not (text.isascii() and text.isprintable()) or " " in text:
        raise ValueError(f"{path} has no bearer token")
    return text


def _number_in(text: str) -> float | None:
    """Return the number in a text; None if it is none, infinite or negative."""
    try:
        found = float(text)
    except ValueError:
        return None
    return found if isfinite(found) and found >= 0 else None


def _put(table: Table, resource: str, found: Iterable[PrometheusSeries]) -> None:
    for series in found:
        points = [(time, _number_in(value)) for time, value in series.values]
        usable = [(time, value) for time, value in points if value is not None]
        if usable and "node" in series.metric:
            table[series.metric["node"], resource] = ([time for time, _ in usable], [value for _, value in usable])


def by_table(table: Table, step: int) -> PriceOf:
    """Return the price of attempts by a table of the prices of nodes, each of so many seconds."""

    def price_of(attempt: AttemptRecord) -> Price:
        requested = _requests_of(attempt)
        start = seconds(attempt.start)
        if not attempt.seconds or start is None:
            return Price(0.0, None)
        if has_unknown_requests(attempt):
            return Price(None, None)
        total = 0.0
        for resource, amount in requested.items():
            series = table.get((attempt.node, resource))
            if series is None:
                return Price(None, None)
            total += amount * _mean(series, start, start + attempt.seconds, step)
        return Price(total * attempt.seconds / HOUR, None)

    return price_of


def _requests_of(attempt: AttemptRecord) -> dict[str, float]:
    """Return the cores, GiB and GPUs that an attempt requested; OpenCost has no price for other resources."""
    found: dict[str, float] = defaultdict(float)
    for name, amount in attempt.resources.items():
        if name in {"cpu", "memory"}:
            found[name] += amount / GIB if name == "memory" else amount
        elif name in GPUS:
            found["gpu"] += amount
    return found


def _mean(series: tuple[Sequence[float], Sequence[float]], start: float, end: float, step: int) -> float:
    """Return the mean price from one time to another, or the nearest if there is none in that time.

    A point at a time has the mean of the `step` seconds before it.
    """
    times, values = series
    first = bisect_left(times, start)
    last = bisect_left(times, end + step)
    weights = [max(0.0, min(end, time) - max(start, time - step)) for time in times[first:last]]
    if sum(weights):
        return sum(weight * value for weight, value in zip(weights, values[first:last], strict=True)) / sum(weights)
    return values[min(range(len(times)), key=lambda place: abs(times[place] - end))]
