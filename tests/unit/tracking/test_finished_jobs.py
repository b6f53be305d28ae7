"""When a Job that has ended leaves the cache, and what is still done for it before. All times are virtual."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import msgspec
import pytest

from tests.unit.accounts.pods import failed, job, running_pod
from tests.unit.controller.leader import (
    KEY,
    Answer,
    FakeApi,
    beside,
    leading,
    new_ledger,
    running,
    see_account,
    see_job,
    stored_pod,
    watch_event,
)
from tests.virtual_time import run
from webhook.accounts.account import Account, id_of
from webhook.accounts.stored import encode
from webhook.accounts.tracked import RestartedPods
from webhook.controller.crashes import REMEMBERED, Crash
from webhook.controller.ledger import GATHERING, Ledger
from webhook.history.record import AttemptRecord, WorkloadRecord, decode
from webhook.kube import bulkhead, names
from webhook.kube.client import ApiError
from webhook.kube.informer import Event
from webhook.objects.problem import Json
from webhook.systems import core
from webhook.systems.job import spec as batch
from webhook.tracking.finished_jobs import STAYS
from webhook.tracking.workload_state import INTERVAL, Verdict

NAME = ("ml", "train")
ENDED = {"type": "Complete", "status": "True", "lastTransitionTime": "2026-01-01T00:10:00Z"}


def take(ledger: Ledger, *conditions: Json, text: str | None = None, kind: str = "MODIFIED", **metadata: Any) -> None:
    """Let the watch of Jobs deliver the Job."""
    root = job(None, {"conditions": list(conditions)}, resourceVersion="7", labels={names.PROFILE: "default"})
    root["metadata"] |= {"annotations": {}, **metadata}
    if text is not None:
        see_account(ledger.trackers, batch.JOB, root, text)
    ledger.cluster.jobs.take(Event(kind, msgspec.Raw(msgspec.json.encode(root))))


async def wait(ledger: Ledger, seconds: float) -> None:
    """Wait, while the watch of pods delivers bookmarks."""
    for _ in range(int(seconds)):
        await asyncio.sleep(1)
        ledger.trackers.pods.last_event = ledger.clock()
    await ledger.trackers.finished.look()


def test_a_job_that_has_ended_leaves_with_its_state_after_a_while() -> None:
    async def work() -> None:
        ledger = new_ledger(FakeApi())
        take(ledger)
        take(ledger, ENDED)
        await wait(ledger, STAYS - 1)
        assert NAME in ledger.cluster.jobs.items
        await wait(ledger, 2)
        assert NAME not in ledger.cluster.jobs.items
        assert KEY not in ledger.trackers.states
        assert ledger.trackers.finished.ended == {}

    run(work())


def test_a_job_that_runs_or_is_only_about_to_end_stays() -> None:
    async def work() -> None:
        ledger = new_ledger(FakeApi())
        take(ledger, {**ENDED, "type": "SuccessCriteriaMet"})
        await wait(ledger, 3 * STAYS)
        assert NAME in ledger.cluster.jobs.items

    run(work())


def with_live_pod(ledger: Ledger) -> None:
    ledger.trackers.see_pod(running_pod())


def with_uncounted_pod(ledger: Ledger) -> None:
    ledger.trackers.see_pod(failed(1))


def with_crash(ledger: Ledger) -> None:
    ledger.crashes.pending[KEY] = {"uid": Crash(failed(1), seen=ledger.clock(), forgotten=ledger.clock() + REMEMBERED)}


def with_action(ledger: Ledger) -> None:
    ledger.trackers.state_of(KEY).see_over_limit()


def with_bug(ledger: Ledger) -> None:
    ledger.trackers.state_of(KEY).see_verdict(Verdict("train-1"))


def with_failed_write(ledger: Ledger) -> None:
    ledger.trackers.state_of(KEY).back_off()


def with_uncounted_restart(ledger: Ledger) -> None:
    restarted = ledger.trackers.state_of(KEY).tracker.restarted = RestartedPods()
    restarted.pods["uid"] = running_pod()
    restarted.open["uid"] = None


def with_gap_of_pods(ledger: Ledger) -> None:
    ledger.trackers.pods.live = False


def with_gap_of_jobs(ledger: Ledger) -> None:
    ledger.cluster.jobs.live = False


NEEDED = (
    *(with_live_pod, with_uncounted_pod, with_uncounted_restart, with_crash, with_action, with_bug),
    *(with_failed_write, with_gap_of_pods, with_gap_of_jobs),
)


@pytest.mark.parametrize("prepare", NEEDED)
def test_a_job_stays_as_long_as_anything_is_left_to_count_or_to_do_for_it(prepare: Callable[[Ledger], None]) -> None:
    async def work() -> None:
        ledger = new_ledger(FakeApi())
        take(ledger)
        prepare(ledger)
        take(ledger, ENDED)
        await wait(ledger, 3 * STAYS)
        assert NAME in ledger.cluster.jobs.items

    run(work())


def test_a_job_stays_until_the_watch_of_pods_has_delivered_something_after_its_end() -> None:
    async def work() -> None:
        ledger = new_ledger(FakeApi())
        take(ledger)
        take(ledger, ENDED)
        await asyncio.sleep(2 * STAYS)
        await ledger.trackers.finished.look()
        assert NAME in ledger.cluster.jobs.items
        await wait(ledger, STAYS)
        assert NAME not in ledger.cluster.jobs.items

    run(work())


def test_a_job_with_an_uncounted_pod_leaves_once_the_watch_has_brought_its_account() -> None:
    async def work() -> None:
        async with leading(new_ledger(api)) as ledger:
            take(ledger)
            ledger.trackers.see_pod(failed(1))
            take(ledger, ENDED)
            await asyncio.sleep(GATHERING + INTERVAL)
            (write,) = api.writes
            assert (write.workload, write.account.ended) == ("train", 1)
            await wait(ledger, 2 * STAYS)
            assert NAME in ledger.cluster.jobs.items  # the watch has not delivered the account
            take(ledger, ENDED, text=write.text)
            await wait(ledger, 2 * STAYS)
            assert NAME not in ledger.cluster.jobs.items

    api = FakeApi()
    run(work())
    assert {write.text for write in api.account_writes()} == {api.writes[0].text}


def test_a_job_leaves_the_cache_of_a_replica_that_failed_to_write_while_it_led() -> None:
    async def work() -> None:
        ledger = new_ledger(FakeApi(Answer(error=ApiError(500, "no"))))
        async with leading(ledger):
            take(ledger)
            ledger.trackers.see_pod(failed(1))
            await asyncio.sleep(GATHERING + INTERVAL)
        take(ledger, ENDED, text=encode(Account(ended=1, cost={"retry": 1}, recent=[id_of(failed(1))])))
        await wait(ledger, 2 * STAYS)
        assert NAME not in ledger.cluster.jobs.items

    run(work())


def test_another_job_of_that_name_stays() -> None:
    async def work() -> None:
        ledger = new_ledger(FakeApi())
        take(ledger, ENDED)
        take(ledger, ENDED, kind="DELETED")
        take(ledger, uid="another", kind="ADDED")
        await wait(ledger, 3 * STAYS)
        found = ledger.cluster.jobs.get(*NAME)
        assert found is not None
        assert found["metadata"]["uid"] == "another"

    run(work())


def test_another_job_of_that_name_stays_that_is_created_during_the_look(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        ledger = new_ledger(FakeApi())
        take(ledger, ENDED)
        await wait(ledger, STAYS - 1)

        async def interrupted(items: Iterable[object]) -> AsyncIterator[object]:
            for item in items:
                take(ledger, ENDED, kind="DELETED")
                take(ledger, uid="another", kind="ADDED")
                yield item

        monkeypatch.setattr(bulkhead, "in_slices", interrupted)
        await wait(ledger, 2)
        assert NAME in ledger.cluster.jobs.items

    run(work())


def test_a_job_that_changes_after_it_has_left_comes_and_leaves_again_without_a_second_record() -> None:
    records: list[bytes] = []

    async def work() -> None:
        ledger = new_ledger(FakeApi())
        ledger.recorder.write = lambda _, line: records.append(line)
        ledger.recorder.leading = True
        take(ledger)
        take(ledger, ENDED)
        await wait(ledger, 2 * STAYS)
        take(ledger, ENDED, resourceVersion="8")
        assert NAME in ledger.cluster.jobs.items
        await wait(ledger, 2 * STAYS)
        assert NAME not in ledger.cluster.jobs.items

    run(work())
    assert len(records) == 1


def test_a_job_that_comes_back_is_no_reason_to_record_its_pods_again() -> None:
    records: list[bytes] = []

    async def work() -> None:
        async with leading(new_ledger(api)) as ledger:
            ledger.recorder.write = lambda _, line: records.append(line)
            take(ledger)
            ledger.trackers.see_pod(failed(1))
            await asyncio.sleep(GATHERING + INTERVAL)
            text = api.account_writes()[-1].text
            take(ledger, ENDED, text=text)
            await wait(ledger, 2 * STAYS)
            assert NAME not in ledger.cluster.jobs.items
            ledger.trackers.see_pod(failed(1), news=False)  # the watch of pods had a gap, and that of Jobs too
            take(ledger, ENDED, text=text)

    api = FakeApi()
    run(work())
    assert [type(decode(line)) for line in records] == [AttemptRecord, WorkloadRecord]


def test_a_job_of_a_job_set_stays_because_its_job_set_judges_pods_by_it() -> None:
    async def work() -> None:
        ledger = new_ledger(FakeApi())
        reference = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "set", "uid": "set-uid"}
        take(ledger, ENDED, ownerReferences=[{**reference, "controller": True}])
        await wait(ledger, 3 * STAYS)
        assert NAME in ledger.cluster.jobs.items

    run(work())


def test_jobs_that_had_ended_before_the_first_list_leave_once_the_pods_are_known() -> None:
    async def work() -> None:
        ledger = new_ledger(api)
        for cache in (ledger.cluster.jobs, ledger.trackers.pods):
            cache.live = False
        root = see_job(ledger, status={"conditions": [ENDED]})
        api.lists[batch.JOB.path()] = [root]
        api.lists[core.POD.path()] = [stored_pod(1, "Succeeded")]
        async with beside(ledger.cluster.jobs.run()), running(ledger):
            for _ in range(int(2 * STAYS)):
                await asyncio.sleep(1)
                bookmark = watch_event("BOOKMARK", {"metadata": {"resourceVersion": "9"}})
                api.watches[core.POD.path()].put_nowait(bookmark)
            assert len(ledger.cluster.jobs.items) == 0

    api = FakeApi()
    run(work())
