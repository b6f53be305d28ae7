"""The alerts of the PrometheusRule read existing metrics and labels, and each one is raised by its fault."""

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest
import yaml

from tests import virtual_time
from tests.admission import policy
from tests.metrics import counted, sample
from tests.monitoring.alert_cases import CASES
from tests.unit.controller.leader import FakeApi, beside, new_ledger
from tests.unit.controller.test_retries import JOB_KEY, Leader, job
from tests.unit.retry.server import Server
from tools.generate import ROOT
from tools.generate.metrics import collectors, family_of, labels_of
from tools.generate.rule_groups import alerts, recorded
from webhook.controller.app import ledger_lease
from webhook.kube.client import ApiError
from webhook.kube.lease import PAUSE
from webhook.objects.problem import Json
from webhook.policy.model import Placement, Profile
from webhook.policy.parse import load_default
from webhook.serving.endpoints import Endpoints
from webhook.systems.reruns import ADAPTERS
from webhook.tracking.cluster import NODES_UNKNOWN, Cluster
from webhook.tracking.nodes import NODES
from webhook.tracking.policy_source import PolicySource

ALERTS: Final[dict[str, Json]] = alerts()
# Labels that Prometheus adds to each series of a pod, and to those of a histogram.
ADDED: Final = {"pod", "le"}
# Suffixes of the names of the series that Prometheus has for a metric.
SERIES: Final = {"counter": ["_total"], "gauge": [""], "histogram": ["_bucket", "_count", "_sum"]}
SITE: Final = "https://retry-policy.dev"
FORBIDDEN: Final = ApiError(403, "forbidden")


def labels_by_series() -> dict[str, set[str]]:
    """Return the names of the labels of each series that Prometheus reads."""
    return {
        name + suffix: set(labels_of(metric))
        for name, metric in collectors().items()
        for suffix in SERIES[family_of(metric).type]
    }


@pytest.mark.parametrize("alert", ALERTS)
def test_an_alert_reads_existing_metrics_and_labels(alert: str) -> None:
    known, expression = labels_by_series(), ALERTS[alert]["expr"]
    read = re.findall(r"(retry_policy_\w+)(?:\{(.*?)\})?", expression)
    assert read
    assert {name for name, _ in read} <= known.keys()
    for name, matchers in read:
        assert set(re.findall(r"(\w+)=", matchers)) <= known[name]
    grouped = {label for labels in re.findall(r"by \((.*?)\)", expression) for label in labels.split(", ")}
    said = set(re.findall(r"\$labels\.(\w+)", yaml.safe_dump(ALERTS[alert]["annotations"])))
    every = set.union(*(known[name] for name, _ in read)) | ADDED
    assert grouped <= every
    assert said <= (grouped or every)


@pytest.mark.parametrize("alert", ALERTS)
def test_an_alert_links_to_its_section_of_the_page_on_alerts(alert: str) -> None:
    page, _, anchor = ALERTS[alert]["annotations"]["runbook_url"].partition("#")
    assert page == f"{SITE}/how-to/alerts/"
    assert anchor == alert.lower()
    assert f"\n### {alert}\n" in (ROOT / "docs" / "how-to" / "alerts.md").read_text()


def test_the_page_on_alerts_has_a_section_only_for_alerts_that_exist() -> None:
    page = (ROOT / "docs" / "how-to" / "alerts.md").read_text()
    assert sorted(re.findall(r"^### (.*)$", page, re.MULTILINE)) == sorted(ALERTS)


def test_promtool_tests_every_alert_with_series_that_the_server_has() -> None:
    known = labels_by_series()
    assert CASES.keys() == ALERTS.keys()
    for case in [case for cases in CASES.values() for case in cases]:
        for series in [*case.fires, *case.quiet]:
            name, _, labels = f"retry_policy_{series}".partition("{")
            assert set(re.findall(r"(\w+)=", labels)) <= known[name] | ADDED


@pytest.mark.parametrize("series", recorded())
def test_a_recording_rule_reads_existing_metrics_and_labels_and_is_named_after_them(series: str) -> None:
    ((labels, metric),) = re.findall(r"^sum by \((.*?)\) \(increase\((\w+)_total\[5m\]\)\)$", recorded()[series])
    assert series == f"{labels.replace(', ', '_')}:{metric}:increase5m"
    assert set(labels.split(", ")) <= labels_by_series()[f"{metric}_total"]


def test_a_replica_that_is_not_ready_has_zero_in_the_metric_of_the_alert() -> None:
    ready = Endpoints(PolicySource(load_default()), None)
    assert counted("retry_policy_ready") == 1
    ready.draining = True
    assert counted("retry_policy_ready") == 0
    Endpoints(PolicySource(), None)
    assert counted("retry_policy_ready") == 0


class NodesApi:
    """Lists one node."""

    def __init__(self, labels: Json) -> None:
        self.labels = labels

    async def get(self, path: str, *_: object) -> Json:
        return {"items": [{"metadata": {"labels": self.labels}, "spec": {}}] if path == NODES else []}

    async def objects(self, *_: object) -> AsyncIterator[Json]:
        yield {"metadata": {"name": "n-1", "labels": self.labels}}


def recognised(server: Any) -> float:
    """Look at the nodes once; return the metric that says whether their provider was recognised."""

    async def work() -> float:
        async with beside(Cluster(server).look_at_nodes()):
            await asyncio.sleep(NODES_UNKNOWN / 2)
            return counted("retry_policy_capacity_provider_recognised")

    return virtual_time.run(work())


def profiles_with_auto(*profiles: Profile) -> float:
    """Put profiles in force; return the metric that counts those with provider auto."""
    PolicySource(policy(**{f"p{number}": one for number, one in enumerate(profiles)}, default=profiles[0]))
    return counted("retry_policy_policy_profiles", provider="auto")


def test_a_provider_that_is_not_recognised_raises_its_alert() -> None:
    assert recognised(NodesApi({"cloud.google.com/gke-nodepool": "a"})) == 1
    assert recognised(NodesApi({"example.test/pool": "a"})) == 0


def test_a_provider_that_is_not_recognised_raises_no_alert_if_every_profile_names_one() -> None:
    named, auto = Profile(placement=Placement(provider="gke")), Profile()
    assert profiles_with_auto(named, auto) == 1
    assert profiles_with_auto(named, named) == 0


def test_a_lease_that_is_forbidden_raises_the_alert_of_the_ledger() -> None:
    class Forbidding(FakeApi):
        async def get(self, _: str, _query: dict[str, str] | None = None, _accept: str = "", kind: Any = Any) -> Json:  # noqa: ARG002
            raise FORBIDDEN

    async def work() -> float:
        api: Any = Forbidding()
        ledger = new_ledger(api)
        assert counted("retry_policy_ledger_forbidden") == 0
        async with beside(ledger_lease(ledger, "retry-policy-system").lead(ledger.work)):
            await asyncio.sleep(PAUSE / 2)
            return counted("retry_policy_ledger_forbidden")

    assert virtual_time.run(work()) == 1


def stuck(kind: str) -> float | None:
    return sample("retry_policy_requested_retries_total", {"kind": kind, "result": "stuck"})


def test_a_retry_that_is_stuck_raises_its_alert_even_the_first_time() -> None:
    # Prometheus sees no increase of a series that begins with 1.
    async def work() -> None:
        server = Server(job())
        server.faults["DELETE"] = [FORBIDDEN]
        leader = Leader(server, JOB_KEY)
        before = {row.kind: stuck(row.kind) for row in ADAPTERS}
        assert None not in before.values()
        await leader.act()
        assert stuck("Job") == (before["Job"] or 0) + 1

    asyncio.run(work())
