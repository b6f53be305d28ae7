"""When the leader writes restarts in place, how it marks pods, and that it bounds a loop."""

import asyncio
from itertools import pairwise

from tests.unit.accounts.restarting_pods import restarted
from tests.unit.controller.leader import FakeApi, leading, new_ledger, running, see_job
from tests.virtual_time import run
from webhook.accounts.account import KEPT_RESTARTED, Account
from webhook.accounts.stored import encode
from webhook.controller.ledger import Ledger
from webhook.kube import names
from webhook.policy.model import Profile, Retries


def marks(api: FakeApi) -> list[tuple[str, str]]:
    """Return the names of the marked pods, each with what its mark says is counted."""
    patched = [write for write in api.writes if "/pods/" in write.path]
    written = [(write.path.rpartition("/")[2], write.operations[-1]["value"][names.COUNTED]) for write in patched]
    return [(name, mark.rpartition(" ")[0]) for name, mark in written]


def see(ledger: Ledger, *restarts: int, policy: str = "Never") -> None:
    for number, times in enumerate(restarts):
        ledger.trackers.see_pod(restarted(times, number=number, policy=policy))


def test_a_restart_of_a_running_pod_is_written_at_once() -> None:
    async def work() -> None:
        api = FakeApi()
        async with leading(new_ledger(api)) as ledger:
            see_job(ledger)
            see(ledger, 1)
            await asyncio.sleep(2)
        (write,) = api.account_writes()
        assert write.account.in_place == {"free": 1}
        assert marks(api) == []

    run(work())


def test_a_pod_that_restarts_every_second_is_written_less_and_less_often() -> None:
    async def work() -> None:
        api = FakeApi()
        text, loose = "", {"backoffLimit": 10_000}
        async with running(new_ledger(api)) as ledger:
            see_job(ledger, spec=loose)
            for second in range(600):
                see(ledger, second + 1, policy="OnFailure")
                await asyncio.sleep(1)
                if api.account_writes() and api.account_writes()[-1].text != text:
                    text = api.account_writes()[-1].text
                    see_job(ledger, text, spec=loose)
        written = [write.at for write in api.account_writes()]
        assert len(written) < 30
        assert max(after - before for before, after in pairwise(written)) <= 62

    run(work())


def test_the_oldest_restarted_pods_of_an_account_are_marked_with_what_is_counted() -> None:
    async def work() -> None:
        api = FakeApi()
        async with leading(new_ledger(api)) as ledger:
            see_job(ledger)
            see(ledger, *range(1, KEPT_RESTARTED + 3), policy="OnFailure")
            await asyncio.sleep(1)
        assert len(api.account_writes()) == 1
        assert marks(api) == [("train-0", "restarts 1"), ("train-1", "restarts 2")]

    run(work())


def test_a_new_leader_counts_nothing_twice() -> None:
    async def work() -> None:
        api = FakeApi()
        async with leading(new_ledger(api)) as ledger:
            see_job(ledger)
            see(ledger, 3)
            await asyncio.sleep(1)
        (write,) = api.account_writes()
        second = FakeApi()
        follower = new_ledger(second)
        see_job(follower, write.text)
        see(follower, 3)
        async with leading(follower):
            await asyncio.sleep(2)
        assert second.account_writes() == []

    run(work())


def test_a_loop_of_free_restarts_fails_the_job() -> None:
    async def work() -> None:
        api = FakeApi()
        ledger = new_ledger(api, Profile(retries=Retries(limit=2)))
        api.objects["/apis/batch/v1/namespaces/ml/jobs/train"] = {
            "metadata": {"name": "train", "namespace": "ml", "uid": "job-uid", "resourceVersion": "7"},
            "spec": {},
            "status": {},
        }
        async with leading(ledger):
            see_job(ledger, encode(Account()))
            see(ledger, 3)
            await asyncio.sleep(2)
        (failed,) = [write for write in api.writes if write.path.endswith("/status")]
        (condition,) = failed.operations[-1]["value"]
        assert condition["reason"] == "FreeRestartLimitExceeded"
        assert condition["message"] == "pod ml/train-0: free restart 3 exceeds the limit of 2"

    run(work())
