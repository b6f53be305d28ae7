"""How the leader writes an account: to which objects, which fields, and what it does after an error."""

import asyncio
from http import HTTPStatus
from typing import Any

import jsonpatch
import msgspec

from tests.accounts import stored
from tests.admission import policy
from tests.metrics import sample
from tests.unit.accounts.pods import failed, job
from tests.unit.controller.leader import see_account
from webhook.accounts.account import Account
from webhook.accounts.stored import decode, encode
from webhook.accounts.tracker import Key
from webhook.controller import store
from webhook.controller.ledger import Ledger
from webhook.kube import names
from webhook.kube.client import ApiError
from webhook.kube.events import Events
from webhook.kube.informer import Event
from webhook.objects.problem import Json
from webhook.pods.pods import Pod
from webhook.policy.model import FailureRule, Match, Next, Profile
from webhook.systems.job import spec as batch
from webhook.tracking.cluster import Cluster
from webhook.tracking.policy_source import PolicySource
from webhook.tracking.workload_state import INTERVAL, LONGEST_PAUSE

KEY = Key("ml", batch.JOB, "train")
STORED = {**job(), "metadata": {**job()["metadata"], "resourceVersion": "7", "labels": {names.PROFILE: "default"}}}


class Server:
    """An API server that accepts every patch, or rejects each with a status."""

    def __init__(self, refuses: int = 0) -> None:
        self.refuses = refuses
        self.patches: list[tuple[str, list[Json]]] = []
        self.created: list[tuple[str, Json]] = []

    async def create(self, path: str, root: Json) -> Json:
        self.created.append((path, root))
        if self.refuses:
            raise ApiError(self.refuses, "no")
        return root

    async def patch(self, path: str, operations: list[Json]) -> Json:
        self.patches.append((path, operations))
        if self.refuses:
            raise ApiError(self.refuses, "no")
        return {}


def ledger(
    server: Server,
    *pods: Pod,
    opted_in: bool = True,
    annotations: Json | None = None,
    profile: Profile = Profile(),  # noqa: B008 - it cannot be changed
) -> Ledger:
    """Return the ledger of a leader, with a Job and its pods in its caches."""
    api: Any = server
    cluster = Cluster(api)
    if opted_in:
        cluster.namespaces.items["", "ml"] = ("default", None)
    found = Ledger(cluster, PolicySource(policy(default=profile)), Events(api))
    root = {**STORED, "metadata": {**STORED["metadata"], **({"annotations": annotations} if annotations else {})}}
    read = cluster.jobs.read(msgspec.Raw(msgspec.json.encode(root)))
    assert read is not None
    cluster.jobs.items[read[0]] = read[1]
    found.trackers.see_job(read[1])
    for pod in pods:
        found.trackers.see_pod(pod)
    found.queue.open()
    return found


def write(found: Ledger, *pods: Pod) -> None:
    async def work() -> None:
        for pod in pods:
            found.trackers.see_pod(pod)
        await found.write(KEY, found.trackers.state_of(KEY))

    asyncio.run(work())


def test_an_ended_pod_is_counted_in_an_opted_in_namespace() -> None:
    server = Server()
    found = ledger(server, failed(1))
    write(found)
    ((path, root),) = server.created
    assert path == "/apis/retry-policy.dev/v1alpha1/namespaces/ml/accounts"
    assert root["status"]["attempts"] == 1
    assert found.events.waiting.qsize() == 1


def decisions(rule: str) -> float:
    labels = {"profile": "default", "rule": rule}
    return sample("retry_policy_ledger_on_failure_decisions_total", labels) or 0.0


def test_the_rules_of_on_failure_that_decided_are_measured() -> None:
    rule = FailureRule(match=Match(exit_codes=(143,)), next=Next(avoid="Node"))
    before = decisions("0"), decisions("None")
    write(ledger(Server(), failed(1), failed(2), failed(3, code=1), profile=Profile(on_failure=(rule,))))
    assert (decisions("0") - before[0], decisions("None") - before[1]) == (2, 1)


def test_a_profile_without_rules_of_on_failure_measures_no_decision() -> None:
    before = decisions("None")
    write(ledger(Server(), failed(1)))
    assert decisions("None") == before


def test_neither_account_nor_event_is_written_in_a_namespace_that_is_not_opted_in() -> None:
    server = Server()
    found = ledger(server, failed(1), opted_in=False)
    write(found)
    assert (server.patches, server.created) == ([], [])
    assert found.events.waiting.qsize() == 0


def test_an_account_that_cannot_be_read_is_replaced_only_if_it_is_unchanged() -> None:
    server = Server()
    found = ledger(server)
    see_account(found.trackers, batch.JOB, STORED, '"unreadable"')
    write(found, failed(1))
    ((path, patch),) = server.patches
    assert "/accounts/job-train-" in path
    assert patch[0] == {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"}
    assert decode(msgspec.json.encode(patch[1]["value"])).ended == 1


def test_an_account_without_its_owner_or_of_a_former_job_of_the_name_is_not_read() -> None:
    text = encode(Account(ended=5, cost={"retry": 5}))
    owners: list[list[Json]] = [[], [{"uid": "another"}]]
    for references in owners:
        server = Server()
        found = ledger(server)
        root = stored(batch.JOB, STORED, text, ownerReferences=references)
        found.trackers.accounts.take(Event("ADDED", msgspec.Raw(msgspec.json.encode(root))))
        write(found, failed(1))
        ((_, made),) = server.created
        assert made["status"]["ended"] == 1
    former = {**STORED, "metadata": {**STORED["metadata"], "uid": "former"}}
    found = ledger(server := Server(), failed(1))
    see_account(found.trackers, batch.JOB, former, text)
    write(found)
    assert [made["status"]["ended"] for _, made in server.created] == [1]


def test_an_account_is_owned_by_its_workload_and_keeps_it_from_no_deletion() -> None:
    server = Server()
    write(ledger(server, failed(1)))
    ((_, made),) = server.created
    (owner,) = made["metadata"]["ownerReferences"]
    assert owner == {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "job-uid"}
    assert made["spec"] == owner


def applied(patch: list[Json], root: Json) -> Json:
    """Apply a JSON Patch like the API server, for which a test of null succeeds if the value is absent."""
    missing = [operation for operation in patch if operation["op"] == "test" and operation["value"] is None]
    assert all(jsonpatch.JsonPointer(operation["path"]).resolve(root, None) is None for operation in missing)
    after: Json = jsonpatch.apply_patch(root, [operation for operation in patch if operation not in missing])
    return after


def test_the_pauses_grow_while_a_write_fails_each_time() -> None:
    found = ledger(Server(refuses=HTTPStatus.UNPROCESSABLE_ENTITY), failed(1))

    async def run() -> list[float]:
        return [await found.try_to_write(KEY) or 0.0 for _ in range(8)]

    pauses = asyncio.run(run())
    assert pauses[0] == INTERVAL
    assert pauses == sorted(pauses)
    assert pauses[-1] == LONGEST_PAUSE


def test_a_pod_without_annotations_gets_the_counted_annotation() -> None:
    server = Server()
    found = ledger(server)
    key, uid = found.cluster.state_key, failed(1).uid
    asyncio.run(store.mark(found.api, key, failed(1, annotated=False)))
    ((_, patch),) = server.patches
    mark = applied(patch, {"metadata": {"uid": uid}})["metadata"]["annotations"][names.COUNTED]
    assert key.counted(uid, mark)
