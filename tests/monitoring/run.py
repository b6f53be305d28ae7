"""The environment of a run: control plane, replicas, and a Prometheus that scrapes them."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from tests.faults.stage import new_stage
from tests.monitoring.alarms import impatient_rules
from tests.monitoring.prometheus import Prometheus
from tests.monitoring.scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def running() -> Iterator[Scenario]:
    """Yield a scenario that is prepared, and stop everything at the end."""
    with new_stage(whole=True, requested_retries=True) as stage, ExitStack() as stack:
        prometheus = Prometheus(stage.processes, stage.folder, impatient_rules())
        scenario = Scenario(stage, prometheus, stack)
        scenario.prepare()
        yield scenario
