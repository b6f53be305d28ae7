"""A cluster in which users have stored mutated objects: nothing ends, nobody else waits, and every command answers.

RETRY_POLICY_FUZZED: how many objects, by default 500; RETRY_POLICY_FUZZ_SEED: the first seed, by default 0.
"""

from __future__ import annotations

import io
import json
import os
import random
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.awaiting import until
from tests.cluster.conftest import kubectl_of_admin, new_namespace
from tests.cluster.kubectl import Kubectl
from tests.cluster.manifests import exits, job
from tests.cluster.namespace import Api
from tests.faults.direct import Address
from tests.fuzz import commands, samples
from tests.fuzz.mutations import drawn
from tests.fuzz.storing import HOST, SORTS, Store
from webhook.history import reading
from webhook.kube import names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.namespace import Namespace

OBJECTS = int(os.environ.get("RETRY_POLICY_FUZZED", "500"))
SEED = int(os.environ.get("RETRY_POLICY_FUZZ_SEED", "0"))
ROUND = 500
EXPLAINED = 15  # objects of a round
LOGS = Path(os.environ.get("RETRY_POLICY_TEST_LOGS", "."))


@pytest.fixture(scope="module")
def kubectl() -> Kubectl:
    return kubectl_of_admin("tests/fuzz")


@pytest.fixture(scope="module")
def api(kubectl: Kubectl) -> Iterator[Api]:
    api = Api.connect(kubectl.kubeconfig)
    yield api
    api.close()


def pid_of(command: str) -> int:
    """Return the pid of one of the harness's programs: `serve` or `control`; fail if it has ended."""
    kubeconfig = f"--kubeconfig={LOGS.parent}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            arguments = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if command.encode() in arguments[:3] and any(one.startswith(kubeconfig) for one in arguments):
            return int(folder.name)
    pytest.fail(f"`retry-policy {command}` has ended:\n{log_of(command)[-3_000:]}", pytrace=False)


def log_of(command: str) -> str:
    return log_file(command).read_text(errors="replace")


def log_file(command: str) -> Path:
    return LOGS / {"serve": "retry-policy.log", "control": "retry-policy-control.log"}[command]


def is_counted(team: Namespace, name: str) -> bool:
    """Let a Job of another team fail; return when its end is counted: the controller's watches and writers work."""
    team.create(job(name, exits(1), backoffLimit=0))
    team.told(name)
    return True


def has_record(copy: Path, name: str) -> bool:
    """Copy the controller's log; return True if it has the record of an attempt of a workload of this name."""
    shutil.copy(log_file("control"), copy)
    found = reading.read((str(copy),), io.BytesIO(), lambda one: one.workload == name, lambda _: None)
    return bool(found.attempts)


def dumped(store: Store, namespaces: list[Namespace], file: Path) -> None:
    """Write all objects of these namespaces of which there are samples into a file, as a List."""
    items: list[Any] = []
    for path in sorted({one.path for one in samples.ALL}):
        for team in namespaces if "{}" in path else namespaces[:1]:
            status, answer = store.send("GET", path.format(team.name))
            kind = answer.get("kind", "").removesuffix("List")
            if status == 200:
                items += [{"apiVersion": answer["apiVersion"], "kind": kind, **item} for item in answer["items"]]
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))


def explainable(store: Store, seeds: list[int], rng: random.Random) -> list[str]:
    """Return the hosts, and some of the stored objects, as `explain` names them."""
    found = [f"{namespace}/job/{HOST}" for namespace in store.hosts]
    for seed in rng.sample(seeds, len(seeds)):
        parts = store.stored[seed].split("/")
        if "namespaces" in parts and parts[-2] not in {"pods", "accounts", "workloads"}:
            found.append(f"{parts[-3]}/{drawn(seed, storable=True).root['kind'].lower()}/{parts[-1]}")
        if len(found) >= EXPLAINED:
            break
    return found


def test_nothing_that_users_store_ends_a_program_delays_others_or_breaks_a_command(
    kubectl: Kubectl, api: Api, tmp_path: Path, record_testsuite_property: Any
) -> None:
    """What late means, and why it is not measured on the client's clock alone: tests/fuzz/innocent.py."""
    pids = {command: pid_of(command) for command in ("serve", "control")}
    other = new_namespace("innocent", {names.PROFILE: "default"}, kubectl, api)
    policy, store = Path(os.environ["RETRY_POLICY_TEST_POLICY"]), Store(Address.of(kubectl.kubeconfig))
    client = (sys.executable, "-m", "tests.fuzz.innocent", str(kubectl.kubeconfig), other.name, str(pids["serve"]))
    troubles, left_out = list[str](), set[str]()
    with subprocess.Popen(client, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as innocent:
        for first in range(SEED, SEED + OBJECTS, ROUND):
            seeds = range(first, min(first + ROUND, SEED + OBJECTS))
            rng = random.Random(first)  # noqa: S311 - the same namespaces for the same seeds
            namespaces = [new_namespace(f"fuzz {sort}", labels, kubectl, api) for sort, labels in SORTS.items()]
            store.hosts.clear()
            for team in namespaces:
                store.open(team.name)
            for seed in seeds:
                one = drawn(seed, storable=True)
                store.store(one, rng.choice(namespaces).name)
                assert innocent.poll() is None, f"up to {one}\n{innocent.communicate()[0]}"
            stored = [seed for seed in seeds if seed in store.stored]
            assert {command: pid_of(command) for command in pids} == pids, f"in the round of seed {first}"
            assert is_counted(other, f"good-{first}"), f"in the round of seed {first}"
            dump = tmp_path / "dump.json"
            dumped(store, namespaces, dump)
            copy = tmp_path / "controller.log"
            until(partial(has_record, copy, f"good-{first}"))
            chosen = explainable(store, stored, rng)
            teams, good = [team.name for team in namespaces], f"good-{first}"
            lines = commands.lines(teams, chosen, dump, policy, copy, good, HOST)
            found = [commands.trouble(line, left_out) for line in lines]
            found.append(commands.trouble_of_dashboard(tmp_path / "dashboard.log"))
            troubles += [f"in the round of seed {first}: {one}" for one in found if one]
            for path in (store.stored[seed] for seed in stored if "/namespaces/" not in store.stored[seed]):
                store.delete(path)
            kubectl.run("delete", "namespace", "--wait=false", *(team.name for team in namespaces))
        assert is_counted(other, "last")
        seen, _ = innocent.communicate()
    store.close()
    assert {command: pid_of(command) for command in pids} == pids
    result = json.loads(seen)
    with_status = store.statuses - store.refused_statuses.total()
    record_testsuite_property("objects", f"{len(store.stored)} stored of {OBJECTS}")
    record_testsuite_property("statuses", f"{with_status} stored of {store.statuses}")
    record_testsuite_property("admissions of another team", result)
    print(f"stored {len(store.stored)} of {OBJECTS} objects, {with_status} of {store.statuses} statuses; {result}")  # noqa: T201
    assert len(store.stored) >= OBJECTS / 2, store.refused.most_common(10)
    print(f"{len(left_out)} lines about objects that were left out", *sorted(left_out)[:20], sep="\n")  # noqa: T201
    assert with_status >= store.statuses * 0.9, store.refused_statuses.most_common(10)
    assert (result["lost"], result["late"]) == (0, 0), result
    assert not troubles, f"{len(troubles)} commands:\n\n" + "\n\n".join(troubles[:40])
