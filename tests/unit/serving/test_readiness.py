"""What a replica waits for before it is ready; when an Event says why its pod is not, and how often."""

import asyncio
from typing import Any

import pytest

from tests import virtual_time
from webhook.policy.parse import load_default
from webhook.serving import endpoints
from webhook.serving.app import PERIOD, REPEATED, THRESHOLD, report
from webhook.serving.endpoints import LISTS_AWAITED, Endpoints
from webhook.tracking.cluster import Cluster
from webhook.tracking.policy_source import PolicySource
from webhook.tracking.trackers import Trackers


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


class Replica:
    """A replica that has just started; `now`: its clock, in seconds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, keeps_ledger: bool = True) -> None:
        no_api: Any = None
        self.now = 1000.0
        monkeypatch.setattr(endpoints, "monotonic", lambda: self.now)
        self.cluster = Cluster(no_api)
        self.trackers = Trackers(self.cluster)
        policy = PolicySource(load_default())
        self.endpoints = Endpoints(policy, self.cluster, self.trackers, keeps_ledger=lambda: keeps_ledger)

    def fill(self) -> None:
        """Fill every cache but that of pods."""
        cluster = self.cluster
        for cache in (cluster.namespaces, cluster.jobs, cluster.job_set_crds, cluster.train_job_crds):
            cache.synced.set()

    def waits_for(self) -> list[str]:
        return [reason.partition(" ")[0] for reason in self.endpoints.reasons()]


def test_a_replica_is_ready_once_namespaces_jobs_and_pods_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    replica = Replica(monkeypatch)
    assert replica.waits_for() == ["caches"]
    replica.now += 10 * LISTS_AWAITED
    replica.fill()
    assert replica.waits_for() == ["pods"]
    replica.trackers.pods.synced.set()
    assert replica.waits_for() == []


def test_pods_that_cannot_be_listed_delay_readiness_only_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    replica = Replica(monkeypatch)
    replica.fill()
    assert replica.waits_for() == ["pods"]
    replica.now += LISTS_AWAITED - 0.1
    assert replica.waits_for() == ["pods"]
    replica.now += 0.2
    assert replica.waits_for() == []


def test_a_long_list_of_jobs_delays_readiness_only_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    replica = Replica(monkeypatch)
    replica.fill()
    replica.cluster.jobs.synced.clear()
    assert replica.waits_for() == ["caches"]
    replica.cluster.jobs.answered = True
    assert replica.endpoints.reasons()[0].startswith("Jobs and pods not listed yet")
    replica.now += LISTS_AWAITED + 0.1
    assert replica.waits_for() == []


def test_a_replica_that_may_not_list_jobs_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    replica = Replica(monkeypatch)
    replica.fill()
    replica.cluster.jobs.synced.clear()
    replica.now += 10 * LISTS_AWAITED
    assert replica.waits_for() == ["caches"]


def test_without_the_role_of_the_ledger_nothing_waits_for_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    replica = Replica(monkeypatch, keeps_ledger=False)
    replica.fill()
    assert replica.waits_for() == []


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
