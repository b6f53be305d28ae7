"""A real Prometheus that scrapes replicas each second, with the shipped rules."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import urlopen

import yaml

from tests.awaiting import LONGEST, until
from tests.cluster.control_plane import HOST, free_ports
from tests.monitoring.program import find

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cluster.processes import Processes
    from tests.faults.stage import Replica

NAME = "prometheus"
EVERY = "1s"  # between two scrapes, and between two evaluations of the rules
JOB = "retry-policy-webhook"


class Prometheus:
    """A running Prometheus; `scrape` says which replicas it scrapes."""

    def __init__(self, processes: Processes, folder: Path, rules: dict[str, Any]) -> None:
        self.folder = folder
        (port,) = free_ports(1)
        self.url = f"http://{HOST}:{port}"
        self.targets = folder / "targets.json"
        self.scrape([])
        (folder / "rules.yaml").write_text(yaml.safe_dump(rules))
        configuration = folder / "prometheus.yaml"
        configuration.write_text(yaml.safe_dump(self.configuration()))
        processes.start(
            NAME,
            [
                find(NAME),
                f"--config.file={configuration}",
                f"--storage.tsdb.path={folder / 'prometheus'}",
                f"--web.listen-address={HOST}:{port}",
                "--query.lookback-delta=10s",
                "--log.level=warn",
            ],
        )
        processes.wait_until(self.is_ready, "Prometheus to be ready", log=NAME)

    def configuration(self) -> dict[str, Any]:
        """Return its configuration; labels of a scraped metric win, as in the ServiceMonitor."""
        job = {
            "job_name": JOB,
            "honor_labels": True,
            "file_sd_configs": [{"files": [str(self.targets)], "refresh_interval": EVERY}],
        }
        every = {"scrape_interval": EVERY, "scrape_timeout": EVERY, "evaluation_interval": EVERY}
        return {"global": every, "rule_files": [str(self.folder / "rules.yaml")], "scrape_configs": [job]}

    def scrape(self, replicas: list[Replica]) -> None:
        """Scrape these replicas from now on."""
        targets = [
            {"targets": [f"{HOST}:{replica.health_port}"], "labels": {"pod": replica.pod}} for replica in replicas
        ]
        written = self.targets.with_suffix(".new")
        written.write_text(json.dumps(targets))
        written.rename(self.targets)  # Prometheus never reads half of it

    def is_ready(self) -> bool:
        try:
            with urlopen(f"{self.url}/-/ready", timeout=5):  # noqa: S310 - of a server on this machine
                return True
        except OSError:
            return False

    def query(self, expression: str, *, at: float | None = None) -> list[Any]:
        """Return the series of an expression, now or at a time."""
        return self.ask("query", query=expression, time=time.time() if at is None else at)

    def over_time(self, expression: str, begin: float, end: float, step: float) -> list[Any]:
        """Return the series of an expression from one time to another."""
        return self.ask("query_range", query=expression, start=begin, end=end, step=step)

    def until(self, expression: str) -> None:
        """Wait until an expression, which is a comparison, has a series."""
        until(lambda: self.query(expression))

    def ask(self, what: str, **parameters: Any) -> list[Any]:
        try:
            with urlopen(f"{self.url}/api/v1/{what}?{urlencode(parameters)}", timeout=LONGEST) as answer:  # noqa: S310
                return list(json.load(answer)["data"]["result"])
        except HTTPError as error:
            raise AssertionError(f"{parameters['query']}: {error.read().decode()}") from None
