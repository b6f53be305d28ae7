"""A part of the big Job with the real API server and Job controller: all pods of one moment, on KWOK's nodes.

The status of the Job says that all other indexes have succeeded, so that the indexes that run are spread over the whole
range. Some of their pods are evicted, some end by a bug, each index up to three times. Runs within `python -m
tests.cluster --without-operators`.
"""

import asyncio
import json
import os
import random
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any, Final

import msgspec

from tests.bench.big_job.explaining import Explained, explained
from tests.cluster.manifests import exits, job
from tests.cluster.nodes import own_node
from webhook.accounts.account import Account
from webhook.accounts.scopes import ranges
from webhook.accounts.stored import decode, encode
from webhook.kube import names
from webhook.kube.client import Api, ApiError
from webhook.objects.patch import pointer
from webhook.objects.problem import Json
from webhook.pods.pods import INDEX
from webhook.systems.account_object import path_of
from webhook.systems.job import spec as batch

NAMESPACE: Final = "big"
JOBS: Final = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
INDEXES: Final = 100_000
LIMIT: Final = 2
RETRIES: Final = 3
MOST_RETRIES: Final = 1000  # of all indexes: the default profile allows no more
DISRUPTED: Final = 400  # in each of two rounds
BUGS: Final = 100
PATIENCE: Final = 170.0  # seconds
AT_ONCE: Final = 2_000  # pods: as many as two cores start in two minutes
(CODE,) = exits(143).items()
ENDS: Final = {"op": "add", "path": pointer(("metadata", "annotations", CODE[0])), "value": CODE[1]}
SELECTOR: Final = {"labelSelector": f"{batch.JOB_NAME}=train", "fieldSelector": "status.phase=Running"}


@dataclass
class Real:
    """What was measured; times in seconds."""

    at_once: int
    started: float
    disrupted: int
    bugs: int
    account: int
    account_exact: bool
    checked: int
    wrong: int
    explain: Explained


async def until(condition: Any, what: str) -> Any:
    """Await a condition; raise TimeoutError that says what was awaited."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if found := await condition():
            return found
        await asyncio.sleep(0.5)
    raise TimeoutError(what)


async def measure(api: Api, at_once: int) -> Real:
    """Run the part of the Job; return what was measured."""
    chance = random.Random(27)  # noqa: S311 - no secret
    await api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE, "labels": {names.PROFILE: "default"}}})
    for number in range(-(-at_once // 100) + 5):
        await api.create("/api/v1/nodes", own_node(f"big-{number}", spot=True))
        await api.create("/api/v1/nodes", own_node(f"big-od-{number}", spot=False))
    run = set(chance.sample(range(INDEXES), at_once))
    spec = {"completionMode": "Indexed", "completions": INDEXES, "parallelism": at_once, "suspend": True}
    manifest = job("train", **spec, backoffLimitPerIndex=RETRIES, backoffLimit=MOST_RETRIES)
    manifest["metadata"]["annotations"] = {names.MAX_DISRUPTIONS: str(LIMIT)}
    await api.create(JOBS, manifest)
    done = ranges(str(index) for index in range(INDEXES) if index not in run)
    await api.patch(
        f"{JOBS}/train/status",
        [
            {"op": "add", "path": "/status/completedIndexes", "value": done},
            {"op": "add", "path": "/status/succeeded", "value": INDEXES - at_once},
        ],
    )
    began = time.monotonic()
    await api.patch(f"{JOBS}/train", [{"op": "replace", "path": "/spec/suspend", "value": False}])

    async def all_run() -> list[Json]:
        found = [one async for one in api.objects(PODS, SELECTOR) if not one["metadata"].get("deletionTimestamp")]
        return found if len(found) >= at_once - len(lost) else []

    lost: set[int] = set()
    found = await until(all_run, "every pod to run")
    started = time.monotonic() - began
    print(f"{at_once} pods run after {started:.0f} s", flush=True)
    disruptions: Counter[int] = Counter()
    failures: Counter[int] = Counter()
    chosen = chance.sample(sorted(run), DISRUPTED)
    buggy = set(chance.sample(sorted(run), BUGS))
    for _ in range(2):
        by_index = {int(one["metadata"]["annotations"][INDEX]): one["metadata"]["name"] for one in found}
        for index in chosen:
            name = by_index[index]
            eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
            await api.create(f"{PODS}/{name}/eviction", eviction)
            disruptions[index] += 1
        for index in buggy - set(chosen):
            await api.patch(f"{PODS}/{by_index[index]}", [ENDS])
            failures[index] += 1
        ended = sum(disruptions.values()) + sum(failures.values())

        async def counted(number: int = ended) -> bool:
            return (await account_of(api)).ended >= number

        await until(counted, f"{ended} ends to be counted")
        print(f"{ended} ends are counted after {time.monotonic() - began:.0f} s", flush=True)
        found = await until(all_run, "every pod to run again")
        again = chosen[: DISRUPTED // 2]
        chosen = again + chance.sample(sorted(run - buggy - set(again)), DISRUPTED - len(again))
    account, expected = (
        await account_of(api),
        {"disruption": sum(disruptions.values()), "retry": sum(failures.values())},
    )
    wrong = 0
    for one in found:
        said, index = one["metadata"]["annotations"], int(one["metadata"]["annotations"][INDEX])
        leaves = disruptions[index] >= LIMIT or failures[index] >= RETRIES
        right = (str(disruptions[index]), "OnDemand" if leaves else "Spot")
        wrong += (said[names.DISRUPTIONS], said[names.PLACEMENT]) != right
    run_of = explained(f"{NAMESPACE}/job/train")
    return Real(
        at_once=at_once,
        started=round(started),
        disrupted=expected["disruption"],
        bugs=expected["retry"],
        account=len(encode(account).encode()),
        account_exact={key: number for key, number in account.cost.items() if number} == expected,
        checked=len(found),
        wrong=wrong,
        explain=run_of,
    )


async def account_of(api: Api) -> Account:
    """Return the account of the Job, as far as it has one."""
    found = await api.find(path_of(batch.JOB, await api.get(f"{JOBS}/train")))
    return Account() if found is None else decode(msgspec.json.encode(found["status"]))


async def main(at_once: int) -> None:
    """Print what was measured as one line of JSON."""
    async with await Api.connect(os.environ["KUBECONFIG"]) as api:
        try:
            print(json.dumps(asdict(await measure(api, at_once))))
        except ApiError as error:
            sys.exit(str(error))


if __name__ == "__main__":
    asyncio.run(main(AT_ONCE))
