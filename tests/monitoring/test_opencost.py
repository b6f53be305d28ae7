"""Prices that a real Prometheus has scraped from an exporter with OpenCost's metrics."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest
from msgspec import structs

from tests.cluster.control_plane import HOST
from tests.cluster.processes import Processes
from tests.monitoring.prometheus import Prometheus
from tests.unit.insight.report.facts import GIB, HOUR, attempt
from webhook.insight.report import opencost
from webhook.insight.report.known import Price
from webhook.insight.report.opencost import Source
from webhook.objects.times import written

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

METRICS = "".join(
    f'{metric}{{arch="amd64",instance="spot-1",instance_type="large",node="spot-1",region="r1"}} {price}\n'
    for metric, price in (
        ("node_cpu_hourly_cost", 0.03),
        ("node_ram_hourly_cost", 0.004),
        ("node_gpu_hourly_cost", 0.95),
        ("node_total_hourly_cost", 9.99),
    )
)


class Exporter(BaseHTTPRequestHandler):
    """Serves the metrics of one node."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(METRICS.encode())

    def log_message(self, *_: object) -> None:
        """Write no line for each scrape."""


@contextmanager
def exporter() -> Iterator[int]:
    """Yield the port of an exporter."""
    server = ThreadingHTTPServer((HOST, 0), Exporter)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def prometheus(tmp_path: Path) -> Iterator[Prometheus]:
    processes = Processes(tmp_path)
    try:
        found = Prometheus(processes, tmp_path, {"groups": []})
        with exporter() as port:
            targets = found.targets.with_suffix(".new")
            targets.write_text(json.dumps([{"targets": [f"{HOST}:{port}"]}]))
            targets.rename(found.targets)
            found.until("count_over_time(node_gpu_hourly_cost[1m]) >= 3")
            yield found
    finally:
        processes.stop()


def test_an_attempt_costs_what_a_real_prometheus_says_of_its_node(prometheus: Prometheus) -> None:
    now = time.time()
    price_of = asyncio.run(opencost.prices(Source(prometheus.url), now - HOUR, now))
    resources = {"cpu": 2.0, "memory": 4.0 * GIB, "nvidia.com/gpu": 1.0}
    on_spot = attempt(node="spot-1", start=written(now - 3), seconds=3.0, resources=resources)
    assert price_of(on_spot).paid == pytest.approx((2 * 0.03 + 4 * 0.004 + 0.95) * 3 / HOUR)
    assert price_of(structs.replace(on_spot, node="spot-2")) == Price(None, None)
