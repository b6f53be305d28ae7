"""The records of history: what each says, when it is made, and which of them a new leader writes again."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.accounts import stored
from tests.admission import policy
from tests.unit.accounts.pods import disrupted, failed, job_set, running_pod
from tests.unit.accounts.workloads import read, stored_workload
from tests.unit.controller.leader import KEY, FakeApi, api_of, leading, see_job, set_policy
from tests.virtual_time import run
from webhook.accounts.account import DETAILS, Account, id_of
from webhook.accounts.cached import trimmed_job_set
from webhook.accounts.stored import decode as decode_account
from webhook.accounts.stored import encode
from webhook.controller import recorder
from webhook.controller.ledger import Ledger
from webhook.history.record import LONGEST, AttemptRecord, Record, WorkloadRecord, decode
from webhook.kube.events import Events
from webhook.objects.problem import Json
from webhook.pods.pods import Pod
from webhook.policy.model import Prices, Profile, Rate, RateMatch
from webhook.systems.job import spec as batch
from webhook.systems.pods import Elsewhere
from webhook.tracking.cluster import Cluster
from webhook.tracking.policy_source import PolicySource
from webhook.tracking.trackers import Trackers
from webhook.tracking.workload_state import Verdict

NOW = datetime(2026, 1, 1, 0, 5, tzinfo=UTC).timestamp()
RESOURCES = (("cpu", 2.0), ("memory", 2.0**30))
COMPLETE = {"type": "Complete", "status": "True", "reason": "CompletionsReached"}
DONE = {"conditions": [{**COMPLETE, "lastTransitionTime": "2026-01-01T00:04:30Z"}]}


class Replica:
    """A replica with a fake API, and the records that it wrote."""

    def __init__(self, api: FakeApi) -> None:
        loop, client = asyncio.get_running_loop(), api_of(api)
        self.api = api
        self.written: list[Record] = []
        cluster = Cluster(client)
        cluster.namespaces.items["", "ml"] = ("default", None)
        self.ledger = Ledger(
            cluster,
            PolicySource(policy(default=Profile())),
            Events(client),
            clock=loop.time,
            record=lambda _, line: self.written.append(decode(line)),
        )
        self.ledger.recorder.now = lambda: NOW
        for cache in (cluster.namespaces, cluster.jobs, self.ledger.trackers.pods, self.ledger.trackers.accounts):
            cache.synced.set()
            cache.live = True

    def see(self, *pods: Pod, news: bool = True) -> None:
        for pod in pods:
            self.ledger.trackers.see_pod(pod, news=news)

    async def deliver(self) -> None:
        """Let the leader write, and its watch deliver the account."""
        await asyncio.sleep(3)
        see_job(self.ledger, self.api.account_writes()[-1].text)

    @property
    def attempts(self) -> list[AttemptRecord]:
        return [one for one in self.written if isinstance(one, AttemptRecord)]

    @property
    def workloads(self) -> list[WorkloadRecord]:
        return [one for one in self.written if isinstance(one, WorkloadRecord)]


@asynccontextmanager
async def a_leader() -> AsyncIterator[Replica]:
    replica = Replica(FakeApi())
    async with leading(replica.ledger):
        yield replica


def led(work: Callable[[Replica], Any]) -> Replica:
    async def through() -> Replica:
        async with a_leader() as replica:
            await work(replica)
            return replica

    return run(through())


def succeeded(number: int = 1, **fields: Any) -> Pod:
    known = {"phase": "Succeeded", "ended": "2026-01-01T00:03:00Z", "resources": RESOURCES}
    return running_pod(number, **{**known, **fields})


def test_a_failed_pod_is_recorded_with_what_the_account_says_about_it() -> None:
    async def work(replica: Replica) -> None:
        see_job(replica.ledger)
        replica.see(disrupted(1, resources=RESOURCES, created="2025-12-31T23:59:00Z"))
        await asyncio.sleep(3)
        assert replica.written == []  # the account is written, but no watch has delivered it
        await replica.deliver()

    (found,) = led(work).written
    assert found == AttemptRecord(
        version=1,
        namespace="ml",
        profile="default",
        kind="Job",
        workload="train",
        workload_uid="job-uid",
        uid=disrupted(1).uid,
        pod="train-1",
        job="train",
        node="spot-1",
        placement="Spot",
        created="2025-12-31T23:59:00Z",
        start="2026-01-01T00:00:00Z",
        end="2026-01-01T00:01:00Z",
        seconds=60.0,
        cause="Disruption",
        reason="EvictionByEvictionAPI",
        cost="disruption",
        retries_left=3,
        disruptions_left=0,
        resources=dict(RESOURCES),
    )


def test_what_an_account_lost_is_what_the_records_say() -> None:
    rate = Rate(match=RateMatch(), per_hour={"cpu": 3.6, "memory": 0})

    async def work(replica: Replica) -> None:
        set_policy(replica.ledger, prices=Prices(currency="USD", rates=(rate,)))
        see_job(replica.ledger)
        replica.see(*(disrupted(number, resources=RESOURCES) for number in (1, 2, 3)))
        await replica.deliver()

    replica = led(work)
    account = decode_account(replica.api.account_writes()[-1].text)
    row = account.lost["Disruption"][""]
    assert row.seconds == sum(one.seconds for one in replica.attempts) == 360
    assert row.resources == [720.0, 360.0]
    assert (row.priced, row.price) == (3, sum(one.price or 0 for one in replica.attempts)) == (3, 0.72)
    assert (account.currency, account.resources) == ("USD", ["cpu", "memory"])


def test_a_bug_saves_the_retries_that_were_left() -> None:
    async def work(replica: Replica) -> None:
        see_job(replica.ledger)
        replica.see(failed(1, code=1, resources=RESOURCES))
        await replica.deliver()

    account = decode_account(led(work).api.account_writes()[-1].text)
    assert account.saved["ExitCode"][""].attempts == 3
    assert account.saved["ExitCode"][""].resources == [360.0, 180.0]


def test_a_pod_that_succeeded_is_recorded_once() -> None:
    async def work(replica: Replica) -> None:
        see_job(replica.ledger)
        replica.see(running_pod(1), succeeded(), succeeded(), succeeded(deleting=True))
        replica.ledger.trackers.see_pod_gone(succeeded())

    (found,) = led(work).attempts
    assert (found.cause, found.cost, found.seconds, found.end) == ("Succeeded", "", 180.0, "2026-01-01T00:03:00Z")


def test_a_pod_that_no_kubelet_took_has_no_seconds_and_none_has_less() -> None:
    async def work(replica: Replica) -> None:
        see_job(replica.ledger)
        replica.see(running_pod(1), running_pod(2))
        replica.see(succeeded(1, started=""), succeeded(2, ended="2025-12-31T00:00:00Z"))

    assert [one.seconds for one in led(work).attempts] == [0.0, 0.0]


def test_a_replica_that_does_not_lead_writes_nothing_and_a_new_leader_writes_the_last_minutes() -> None:
    async def work() -> Replica:
        replica = Replica(FakeApi())
        see_job(replica.ledger)
        replica.see(running_pod(1), running_pod(2), running_pod(3), succeeded(1))
        await asyncio.sleep(recorder.RECENT + 1)
        replica.see(succeeded(2))
        await asyncio.sleep(recorder.RECENT - 1)
        replica.see(succeeded(3))
        assert replica.written == []
        async with leading(replica.ledger):
            await asyncio.sleep(1)
        return replica

    assert [one.pod for one in run(work()).attempts] == ["train-2", "train-3"]


def test_a_new_leader_writes_nothing_that_is_older() -> None:
    async def work() -> Replica:
        replica = Replica(FakeApi())
        see_job(replica.ledger)
        replica.see(running_pod(1), succeeded(1))
        await asyncio.sleep(recorder.RECENT + 1)
        async with leading(replica.ledger):
            await asyncio.sleep(1)
        return replica

    assert run(work()).written == []


def test_a_follower_records_the_reason_of_an_eviction_by_kueue_for_all_pods_that_it_has_ended() -> None:
    times = {"created": "2026-01-01T00:01:00Z", "deleted": "2026-01-01T00:03:01Z", "ended": "2026-01-01T00:03:02Z"}
    pods = [
        running_pod(number, phase="Failed", tracked=False, deleting=True, **times) for number in range(1, DETAILS + 5)
    ]

    async def play(text: str | None) -> Replica:
        replica = Replica(FakeApi())
        see_job(replica.ledger)
        stored = stored_workload({"Preempted": 1}, "Preempted", "2026-01-01T00:03:00Z")
        replica.ledger.kueue.seen(read(stored))
        replica.see(*pods)
        if text is not None:
            see_job(replica.ledger, text)
        async with leading(replica.ledger):
            await asyncio.sleep(0 if text else 3)
        return replica

    text = run(play(None)).api.account_writes()[-1].text
    found = run(play(text)).attempts
    assert [(one.cause, one.reason, one.cost) for one in found] == [("WorkloadEvicted", "Preempted", "none")] * len(
        pods
    )


def test_a_follower_records_what_another_leader_counted_as_that_leader_did() -> None:
    pods = [disrupted(1), *(failed(number, resources=RESOURCES) for number in range(2, DETAILS + 5))]

    async def leader(replica: Replica) -> None:
        see_job(replica.ledger, spec={"backoffLimit": 20})
        replica.see(*pods)
        await asyncio.sleep(3)
        see_job(replica.ledger, replica.api.account_writes()[-1].text, spec={"backoffLimit": 20})

    async def follower(text: str) -> Replica:
        replica = Replica(FakeApi())
        see_job(replica.ledger, spec={"backoffLimit": 20})
        replica.see(*pods)
        see_job(replica.ledger, text, spec={"backoffLimit": 20})
        async with leading(replica.ledger):
            await asyncio.sleep(0)
        return replica

    first = led(leader)
    second = run(follower(first.api.account_writes()[-1].text))
    assert len(first.attempts) == len(pods)
    assert first.attempts == second.attempts
    assert sorted(one.retries_left or 0 for one in first.attempts) == sorted([20, *range(20 - len(pods) + 1, 20)])


def test_after_the_first_list_only_what_ended_lately_is_recorded() -> None:
    async def work() -> Replica:
        replica = Replica(FakeApi())
        replica = Replica(FakeApi())
        long_ago, lately = "2026-01-01T00:02:00Z", "2026-01-01T00:04:00Z"
        ended = [failed(3, ended=long_ago), failed(4, ended=lately)]
        replica.see(succeeded(1, ended=long_ago), succeeded(2, ended=lately), *ended, news=False)
        root = see_job(replica.ledger)  # as a list has it: with an account
        replica.ledger.trackers.states.clear()
        replica.see(*ended, news=False)
        replica.ledger.trackers.see_job(root, news=False)
        text = encode(Account(recent=[id_of(pod) for pod in ended]))
        see_listed_account(replica.ledger.trackers, root, text)
        async with leading(replica.ledger):
            await asyncio.sleep(0)
        return replica

    assert [one.pod for one in run(work()).attempts] == ["train-2", "train-4"]


def see_listed_account(found: Trackers, root: Json, text: str) -> None:
    """Let the first list deliver the account of a Job."""
    read = found.accounts.read(msgspec.Raw(msgspec.json.encode(stored(batch.JOB, root, text))))
    assert read is not None
    found.accounts.items[read[0]] = read[1]
    found.see_stored(read[1], news=False)


def test_a_crash_that_is_found_fatal_later_is_recorded_again() -> None:
    async def work(replica: Replica) -> None:
        see_job(replica.ledger)
        replica.see(failed(1, resources=RESOURCES))
        await replica.deliver()
        replica.ledger.trackers.state_of(KEY).see_verdict(Verdict("train-1"))
        replica.ledger.wake(KEY)
        await replica.deliver()

    replica = led(work)
    assert [(one.pod, one.cost, one.settled) for one in replica.attempts] == [
        ("train-1", "retry", False),
        ("train-1", "fatal", True),
    ]
    account = decode_account(replica.api.account_writes()[-1].text)
    assert account.lost["ExitCode"][""].attempts == 1  # it is not counted twice
    assert account.saved["ExitCode"][""].resources == [360.0, 180.0]


def test_a_job_that_ended_is_recorded_once_with_its_budget() -> None:
    async def work(replica: Replica) -> None:
        see_job(replica.ledger, spec={"completions": 4, "parallelism": 2, "completionMode": "Indexed"})
        for _ in range(2):
            see_job(replica.ledger, spec={"completions": 4, "parallelism": 2, "completionMode": "Indexed"}, status=DONE)

    assert led(work).written == [
        WorkloadRecord(
            version=1,
            namespace="ml",
            profile="default",
            kind="Job",
            workload="train",
            workload_uid="job-uid",
            created="",
            end="2026-01-01T00:04:30Z",
            outcome="Complete",
            reason="CompletionsReached",
            retries=3,
            indexed=True,
            completions=4,
            parallelism=2,
        )
    ]


def test_a_job_that_is_about_to_fail_has_not_ended() -> None:
    async def work(replica: Replica) -> None:
        see_job(replica.ledger, status={"conditions": [{"type": "FailureTarget", "status": "True"}]})

    assert led(work).written == []


def test_a_job_set_that_ended_is_recorded_with_its_restarts() -> None:
    ended = {"type": "Failed", "status": "True", "reason": "ReachedMaxRestarts"}
    conditions = [{"type": "Suspended", "status": "False"}, {**ended, "lastTransitionTime": "2026-01-01T00:04:30Z"}]
    root = job_set(status={"terminalState": "Failed", "conditions": conditions})
    owner = {"apiVersion": "x/v1", "kind": "TrainJob", "name": "nightly", "uid": "u", "controller": True}
    created = {"resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z"}
    root["metadata"] |= {**created, "ownerReferences": [owner]}

    async def work(replica: Replica) -> None:
        replica.ledger.trackers.see_job_set(trimmed_job_set(root))

    (found,) = led(work).workloads
    assert (found.kind, found.workload) == ("JobSet", "set")
    assert (found.outcome, found.reason) == ("Failed", "ReachedMaxRestarts")
    assert (found.retries, found.owner, found.created) == (3, "TrainJob/nightly", "2026-01-01T00:00:00Z")


def test_a_record_that_no_reader_would_take_is_left_out_and_a_later_leader_leads() -> None:
    ended = {"type": "Failed", "status": "True", "lastTransitionTime": "2026-01-01T00:04:30Z"}
    root = job_set(status={"terminalState": "Failed", "conditions": [ended]})
    root["metadata"] |= {"resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z"}
    root["spec"]["failurePolicy"]["maxRestarts"] = -1

    async def work() -> Replica:
        replica = Replica(FakeApi())
        replica.ledger.trackers.see_job_set(trimmed_job_set(root))
        replica.see(succeeded(1, uid="u" * 400, ended="2026-01-01T00:04:00Z"), news=False)
        async with leading(replica.ledger):
            await asyncio.sleep(1)
            assert replica.ledger.leading
        return replica

    found = run(work())
    assert [one.retries for one in found.workloads] == [0]
    assert found.attempts == []


def test_an_account_that_cannot_be_read_does_not_stop_what_is_recorded_after_it() -> None:
    async def work(replica: Replica) -> None:
        see_job(replica.ledger, "[]")
        replica.see(*(failed(number) for number in range(1, 13)))
        await asyncio.sleep(5)
        see_job(replica.ledger, replica.api.account_writes()[-1].text)
        assert replica.ledger.trackers.states[KEY].text == replica.api.account_writes()[-1].text

    assert len(led(work).attempts) == 12


def test_nothing_is_recorded_in_namespaces_that_are_not_opted_in() -> None:
    async def work(replica: Replica) -> None:
        replica.ledger.cluster.namespaces.items.clear()
        see_job(replica.ledger)
        replica.see(running_pod(1), succeeded(1))
        see_job(replica.ledger, status=DONE)

    assert led(work).written == []


def test_what_ended_before_a_new_replica_knows_its_namespaces_is_written_if_they_are_opted_in() -> None:
    async def work() -> Replica:
        replica = Replica(FakeApi())
        namespaces = replica.ledger.cluster.namespaces
        opted_in = dict(namespaces.items)
        namespaces.items.clear()
        namespaces.synced.clear()
        see_job(replica.ledger)
        lately = {"ended": "2026-01-01T00:04:00Z"}
        replica.see(succeeded(1, **lately), succeeded(2, namespace="other", **lately), news=False)
        async with leading(replica.ledger):
            await asyncio.sleep(1)
            assert replica.written == []
            namespaces.items.update(opted_in)
            namespaces.synced.set()
            await asyncio.sleep(1)
        return replica

    assert [(one.pod, one.profile) for one in run(work()).written if isinstance(one, AttemptRecord)] == [
        ("train-1", "default")
    ]


def test_a_new_leader_says_what_it_did_not_know_of_the_nodes_when_it_made_the_records() -> None:
    rate = Rate(match=RateMatch(capacity="Spot"), per_hour={"cpu": 3600})

    async def work() -> Replica:
        replica = Replica(FakeApi())
        set_policy(replica.ledger, prices=Prices(currency="USD", rates=(rate,)))
        see_job(replica.ledger)
        replica.see(running_pod(1), succeeded(1))
        labels = {"cloud.google.com/gke-spot": "true"}
        replica.ledger.cluster.known_nodes.see({"metadata": {"name": "spot-1", "labels": labels}})
        async with leading(replica.ledger):
            await asyncio.sleep(0)
        return replica

    (found,) = run(work()).attempts
    assert (found.capacity, found.price, found.currency) == ("Spot", 360.0, "USD")


def test_the_records_of_a_replica_are_bounded() -> None:
    one = WorkloadRecord(
        version=1, namespace="ml", kind="Job", workload="x", workload_uid="u", created="", end="", outcome="Complete"
    )

    async def work() -> int:
        replica = Replica(FakeApi())
        for number in range(recorder.MOST + 50):
            replica.ledger.recorder.keep(str(number), one)
        return len(replica.ledger.recorder.kept)

    assert run(work()) == recorder.MOST


@pytest.mark.parametrize("name", ["x" * 5000, "\x01" * 5000, "é" * 5000, '"' * 5000])
def test_no_names_that_users_choose_make_a_record_too_long(name: str) -> None:
    async def work(replica: Replica) -> None:
        owner = {"apiVersion": "x/v1", "kind": name, "name": name, "uid": "u", "controller": True}
        root = see_job(replica.ledger)
        root["metadata"]["ownerReferences"] = [owner]
        pod = succeeded(1, zone=name[:128], placement=name[:128], job=name[:317], index="7")
        replica.ledger.recorder.see_succeeded(KEY, pod, root, just_now=True)
        line = next(iter(replica.ledger.recorder.kept.values())).line
        assert len(line) <= LONGEST
        decode(line)

    led(work)


AIRFLOW = Elsewhere("DAGRun", "etl.manual__2026", "", "load/3", "DAG/etl")


def uncounted(pod: Pod, known: Elsewhere = AIRFLOW) -> Pod:
    return replace(pod, job="", job_uid="", elsewhere=known)


def test_the_end_of_a_pod_without_an_account_is_recorded_without_a_cost() -> None:
    crashed = uncounted(failed(4, code=1, resources=RESOURCES, attempt=2))

    async def work(replica: Replica) -> None:
        replica.see(uncounted(running_pod(4)))
        assert replica.written == []
        replica.see(crashed)
        replica.see(crashed)  # it changes once more
        replica.ledger.trackers.see_pod_gone(crashed)

    (found,) = led(work).attempts
    assert (found.kind, found.workload, found.workload_uid) == ("DAGRun", "etl.manual__2026", "")
    assert (found.owner, found.scope, found.attempt) == ("DAG/etl", "load/3", 2)
    assert (found.cause, found.reason, found.cost) == ("ExitCode", "main 1", "")
    assert (found.resources, found.seconds) == (dict(RESOURCES), 240)


def test_a_pod_without_an_account_that_succeeds_or_is_deleted_is_recorded_too() -> None:
    async def work(replica: Replica) -> None:
        replica.see(uncounted(succeeded(1)))
        deleted = uncounted(running_pod(2, deleting=True, deleted="2026-01-01T00:04:00Z"))
        replica.see(deleted)
        replica.ledger.trackers.see_pod_gone(deleted)
        evicted = uncounted(disrupted(4))
        replica.see(evicted)

    assert [(one.cause, one.reason) for one in led(work).attempts] == [
        ("Succeeded", ""),
        ("Other", "Deleted"),
        ("Disruption", "EvictionByEvictionAPI"),
    ]


def test_pods_without_an_account_that_ended_long_ago_or_elsewhere_are_not_recorded() -> None:
    async def work(replica: Replica) -> None:
        replica.see(uncounted(failed(1, ended="2025-12-31T00:00:00Z")))
        replica.see(uncounted(failed(4, namespace="not-opted-in")))

    assert led(work).written == []
