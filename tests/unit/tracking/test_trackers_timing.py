"""What a replica counts after a watch was lost, and how long the admission of a pod waits for the watch."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from tests.objects import STATE_KEY, with_proof
from tests.opted_in import opted_in
from tests.unit.accounts.pods import failed, job, running_pod
from tests.unit.controller.leader import BOOKMARK, KEY, FakeApi, api_of, beside, stored_pod, watch_event
from tests.virtual_time import BEGIN, now, run
from webhook.accounts.account import Account
from webhook.accounts.cached import CachedJob
from webhook.accounts.tracker import Key
from webhook.kube import names
from webhook.objects.problem import Json
from webhook.pods.pods import Pod
from webhook.systems.job import spec as batch
from webhook.tracking.admission_counts import CATCHING_UP, AdmissionCounts, PlacementCounts
from webhook.tracking.cluster import Cluster
from webhook.tracking.trackers import UNSEEN_AFTER, Trackers

PODS, JOBS = "/api/v1/pods", "/apis/batch/v1/jobs"


class News:
    """The notifications of trackers: changed workloads, with the seconds to wait, and crashed pods."""

    def __init__(self) -> None:
        self.changes: list[tuple[Key, float]] = []
        self.crashes: list[str] = []

    def changed(self, key: Key, delay: float) -> None:
        self.changes.append((key, delay))

    def crashed(self, _key: Key, pod: Pod, _job: Json) -> None:
        self.crashes.append(pod.name)


def stored_job(uid: str = "job-uid", **spec: Any) -> CachedJob:
    labels = {names.PROFILE: "default"}
    return job({"parallelism": 1, **spec}, uid=uid, resourceVersion="1", labels=labels)


@asynccontextmanager
async def watching(api: FakeApi, news: News | None = None) -> AsyncIterator[Trackers]:
    """Yield trackers that have read the lists, and watch pods and Jobs."""
    news = news or News()
    cluster = opted_in(Cluster(api_of(api)))
    found = Trackers(cluster, changed=news.changed, crashed=news.crashed, clock=asyncio.get_running_loop().time)
    async with asyncio.TaskGroup() as group:
        jobs = group.create_task(cluster.jobs.run())
        await cluster.jobs.synced.wait()
        pods = group.create_task(found.pods.run())
        found.accounts.synced.set()
        await asyncio.sleep(1)
        yield found
        jobs.cancel()
        pods.cancel()


def tell(api: FakeApi, path: str, event: Json | Exception) -> None:
    api.watches[path].put_nowait(event)


def with_lists(*pods: Json, jobs: tuple[Json, ...] | None = None) -> FakeApi:
    api = FakeApi()
    api.lists = {PODS: [*pods], JOBS: [stored_job()] if jobs is None else [*jobs]}
    return api


def test_a_pod_that_fails_while_the_watch_is_open_is_reported_as_a_crash() -> None:
    async def work() -> None:
        async with watching(api, news):
            tell(api, PODS, watch_event("MODIFIED", stored_pod(1, "Failed", 1)))
            await asyncio.sleep(1)

    api, news = with_lists(stored_pod(1)), News()
    run(work())
    assert news.crashes == ["train-1"]
    assert news.changes == [(KEY, 0.0)]


def test_a_pod_that_failed_while_the_watch_was_lost_is_counted_but_not_reported_as_a_crash() -> None:
    async def work() -> None:
        async with watching(api, news) as found:
            api.lists[PODS] = [stored_pod(1, "Failed", 1)]
            tell(api, PODS, TimeoutError())
            await asyncio.sleep(1)
            state = found.states[KEY]
            assert [pod.name for pod in state.tracker.uncounted(state.account)] == ["train-1"]

    api, news = with_lists(stored_pod(1)), News()
    run(work())
    assert news.crashes == []
    assert news.changes == [(KEY, 0.0)]


def test_pods_that_vanished_while_the_watch_was_lost_are_checked_after_a_delay() -> None:
    async def work() -> None:
        async with watching(api, news) as found:
            api.lists[PODS] = [stored_pod(2)]
            tell(api, PODS, TimeoutError())
            await asyncio.sleep(1)
            assert list(found.states[KEY].tracker.vanished) == ["uid-1"]
            assert list(found.running.packed) == ["uid-2"]

    api, news = with_lists(stored_pod(1), stored_pod(2)), News()
    run(work())
    assert news.changes == [(KEY, UNSEEN_AFTER)]


def test_pods_count_as_watched_since_they_were_last_listed() -> None:
    async def work() -> None:
        async with watching(api) as found:
            assert found.watching_since == BEGIN
            await asyncio.sleep(60)
            tell(api, PODS, BOOKMARK)
            await asyncio.sleep(1)
            assert found.watching_since == BEGIN
            assert found.pods.last_event > BEGIN + 60
            tell(api, PODS, TimeoutError())
            await asyncio.sleep(1)
            assert BEGIN + 61 < found.watching_since <= BEGIN + 62.5

    api = with_lists()
    run(work())


@pytest.mark.parametrize(("jobs", "left"), [((), None), ((stored_job(uid="another"),), ["another"])])
def test_a_job_that_was_deleted_while_the_watch_was_lost_is_forgotten(
    jobs: tuple[Json, ...], left: list[str] | None
) -> None:
    async def work() -> None:
        async with watching(api) as found:
            api.lists[JOBS] = [*jobs]
            tell(api, JOBS, TimeoutError())
            await asyncio.sleep(1)
            job = found.job_at(KEY.kind, KEY.namespace, KEY.name)
            assert (None if job is None else [job["metadata"]["uid"]]) == left
            assert found.job_of(running_pod(1)) is None
            assert KEY not in found.states

    api = with_lists(stored_pod(1))
    run(work())


async def admit(counts: AdmissionCounts) -> PlacementCounts | None:
    """Return the counts before a pod that replaces another one."""
    return await counts.of_job("ml", stored_job(), {"metadata": {"labels": {}}})


def test_the_admission_of_a_pod_waits_until_the_watch_shows_the_end_of_the_previous_pod() -> None:
    async def work() -> None:
        async with watching(api) as found:
            begin = now()
            admission = asyncio.create_task(admit(AdmissionCounts(found)))
            await asyncio.sleep(CATCHING_UP / 2)
            assert not admission.done()
            tell(api, PODS, watch_event("DELETED", stored_pod(1, deletionTimestamp="2026-01-01T00:00:00Z")))
            await admission
            assert now() - begin == pytest.approx(CATCHING_UP / 2)
            assert found.waiting == {}

    api = with_lists(stored_pod(1))
    run(work())


def test_the_admission_of_a_pod_waits_only_a_limited_time_for_a_late_watch() -> None:
    async def work() -> None:
        async with watching(api) as found:
            begin = now()
            assert await admit(AdmissionCounts(found)) == PlacementCounts(disruptions=0, failures=0)
            assert now() - begin == pytest.approx(CATCHING_UP)
            assert found.waiting == {}

    api = with_lists(stored_pod(1))
    run(work())


def test_a_cancelled_admission_stops_waiting() -> None:
    async def work() -> None:
        async with watching(api) as found:
            admission = asyncio.create_task(admit(AdmissionCounts(found)))
            await asyncio.sleep(CATCHING_UP / 2)
            admission.cancel()
            await asyncio.sleep(0.01)
            assert admission.cancelled()
            assert found.waiting == {}

    api = with_lists(stored_pod(1))
    run(work())


def test_if_the_list_of_pods_does_not_come_in_time_the_counts_are_unknown() -> None:
    async def work() -> None:
        found = Trackers(Cluster(api_of(FakeApi())))
        found.see_job(stored_job())
        found.see_pod(running_pod(1))
        found.see_pod(failed(1))
        counts = AdmissionCounts(found)
        assert await admit(counts) is None
        assert now() == pytest.approx(CATCHING_UP)
        assert await admit(counts) is None
        assert now() == pytest.approx(CATCHING_UP), "the next admission does not wait again"
        assert not found.synced

    run(work())


def test_the_admission_of_a_pod_waits_for_the_first_list_of_pods() -> None:
    async def work() -> None:
        found = Trackers(Cluster(api_of(FakeApi())))
        found.cluster.jobs.items["ml", "train"] = stored_job()
        admission = asyncio.create_task(admit(AdmissionCounts(found)))
        await asyncio.sleep(CATCHING_UP / 2)
        found.see_pod(failed(1))
        found.pods.synced.set()
        found.accounts.synced.set()
        counts = await admission
        assert counts is not None
        assert counts.ended == (failed(1),)

    run(work())


def test_pods_that_are_listed_before_their_job_are_counted_although_the_list_of_job_sets_comes_first() -> None:
    async def work() -> None:
        cluster = Cluster(api_of(FakeApi()))
        found = Trackers(cluster)
        found.see_pod(failed(1), news=False)
        await found.see_only({failed(1).uid})
        await found.forget_gone()  # JobSets are listed
        cluster.jobs.items["ml", "train"] = stored_job()
        found.see_job(stored_job())
        assert [pod.name for pod in found.state_of(KEY).tracker.uncounted(Account())] == ["train-1"]

    run(work())


def test_pods_of_a_job_that_does_not_exist_are_forgotten_once_jobs_are_listed() -> None:
    async def work() -> None:
        cluster = Cluster(api_of(FakeApi()))
        found = Trackers(cluster)
        found.see_pod(failed(1), news=False)
        await found.see_only({failed(1).uid})
        cluster.jobs.synced.set()
        await found.forget_gone()
        assert found.states == {}

    run(work())


@pytest.mark.parametrize("after", ["see_only", "forget_gone"])
def test_a_workload_that_raises_after_a_gap_in_a_watch_hides_none_of_the_others(
    after: str,
) -> None:
    class Hostile(Trackers):
        def tidy(self, key: Key) -> None:
            if key == KEY:
                raise RecursionError
            super().tidy(key)

    async def work() -> None:
        cluster = Cluster(api_of(FakeApi()))
        found = Hostile(cluster)
        for pod in (failed(1), replace(failed(2), job="other", job_uid="other-uid")):
            found.see_pod(pod, news=False)
        cluster.jobs.synced.set()
        await (found.see_only(set()) if after == "see_only" else found.forget_gone())
        assert list(found.states) == [KEY]

    run(work())


def test_a_replica_that_starts_finds_the_zone_that_has_just_lost_its_spot_pods() -> None:
    lost = {"type": "DisruptionTarget", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}

    def spot_pod(number: int, *conditions: Json) -> Json:
        said, labels = {names.PLACEMENT: "Spot"}, {"topology.kubernetes.io/zone": "started"}
        root = with_proof(stored_pod(number, "Failed" if conditions else "Running", annotations=said, labels=labels))
        return {**root, "spec": {"nodeName": "n"}, "status": {**root["status"], "conditions": list(conditions)}}

    async def work() -> None:
        trackers = Trackers(opted_in(Cluster(api_of(api))))
        trackers.cluster.state_key.key = STATE_KEY.key
        trackers.now = lambda: 1767225660.0  # 2026-01-01T00:01:00Z
        trackers.cluster.known_nodes.zones.add("started")
        async with beside(trackers.pods.run()):
            await trackers.pods.synced.wait()
            await asyncio.sleep(1)
        assert trackers.waves.avoided(50, 900, trackers.now()) == ("started",)
        assert trackers.waves.avoided(51, 900, trackers.now()) == ()

    api = with_lists(*(spot_pod(number, lost) for number in range(3)), *(spot_pod(number) for number in range(3, 6)))
    run(work())


def test_the_end_of_a_deleted_job_is_forgotten_after_a_gap_in_the_watch() -> None:
    async def work() -> None:
        async with watching(api) as found:
            assert found.ended[batch.JOB] == {"job-uid", "another"}
            api.lists[JOBS] = [done("job-uid", "train")]
            tell(api, JOBS, TimeoutError())
            await asyncio.sleep(1)
            assert found.ended[batch.JOB] == {"job-uid"}

    def done(uid: str, name: str) -> Json:
        root = stored_job(uid=uid)
        conditions = [{"type": "Complete", "status": "True", "lastTransitionTime": "2026-01-01T00:04:30Z"}]
        return {**root, "metadata": {**root["metadata"], "name": name}, "status": {"conditions": conditions}}

    api = with_lists(jobs=(done("job-uid", "train"), done("another", "other")))
    run(work())
