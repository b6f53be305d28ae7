"""Fills an etcd with any number of Jobs, pods and nodes within seconds, and keeps it in the cache for the next run.

A real API server stores one object of each kind, with defaults, managed fields and status. Every further object is the
stored bytes of that one with other names, uids and times of the same length, written into etcd without the API server.
An API server that starts on this etcd lists and watches them as if it had stored each of them.
"""

import base64
import http.client
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from http import HTTPStatus
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import yaml

from tests.admission import mutate
from tests.bench.reviews import job, pod_of
from tests.cluster import binaries, control_plane, toolchain
from tests.cluster.control_plane import HOST, free_ports
from tests.cluster.installation import BASE, FIRST_POLICY
from tests.cluster.kubectl import Kubectl
from tests.cluster.nodes import own_node
from tests.cluster.processes import HarnessError, Processes
from webhook.accounts import stored
from webhook.accounts.account import Account, Attempt, Left, id_of_uid
from webhook.accounts.stored import encode
from webhook.history.usage import UsedRow
from webhook.kube import names
from webhook.objects.problem import Json
from webhook.policy.applied import applied
from webhook.policy.model import Policy, Profile
from webhook.policy.parse import parse
from webhook.rules.facts import Facts
from webhook.systems import account_object as account
from webhook.systems.job import spec as batch

NAMESPACES: Final = 1000
BATCH: Final = 200  # objects of one transaction
WRITERS: Final = 4  # connections to etcd
SPREAD: Final = 86_400  # seconds over which the times of creation are spread
STARTED: Final = "2026-01-01T00:00:00Z"  # in the status of the stored objects
PARALLEL: Final = 8  # pods of a Job at a time: more than are there, so that a further one replaces none
VARIABLES: Final = 5  # of a container, see `pod_spec`
# Of etcd while it is filled: larger requests, and few of them in memory.
FILLING: Final = ("--max-txn-ops=1000", "--max-request-bytes=33554432", "--snapshot-count=100", "--unsafe-no-fsync")
QUOTA: Final = f"--quota-backend-bytes={8 * 2**30}"


class Size(NamedTuple):
    """The numbers of objects in a cluster; `namespaces` are opted in, and the Jobs are spread over them.

    `failed`: whether every Job and pod has failed, and each Job has an Account.
    """

    jobs: int
    pods: int
    nodes: int = 1000
    namespaces: int = NAMESPACES
    failed: bool = False

    def __str__(self) -> str:
        found = f"{self.jobs:,} Jobs, {self.pods:,} pods, {self.nodes:,} nodes, {self.namespaces:,} namespaces"
        return f"{found}, all failed" if self.failed else found


class StoredJob(NamedTuple):
    """The names of a Job in a filled cluster."""

    namespace: str
    name: str
    uid: str


class StoredPod(NamedTuple):
    """The names of a pod in a filled cluster."""

    job: StoredJob
    name: str
    uid: str
    node: str


def stored_job(size: Size, number: int) -> StoredJob:
    """Return a Job by its number, from 0."""
    return StoredJob(f"team-{number % size.namespaces:04}", f"train-model-{number:06}", uid_of("job", number))


def stored_pod(size: Size, number: int) -> StoredPod:
    """Return a pod by its number, from 0; the pods are dealt out to the Jobs in turn."""
    owner = stored_job(size, number % size.jobs)
    uid = uid_of("pod", number)
    return StoredPod(owner, f"{owner.name}-{uid[:5]}", uid, f"node-{number % size.nodes:05}")


def uid_of(kind: str, number: int) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{kind} {number}"))


@contextmanager
def filled(size: Size) -> Iterator[Path]:
    """Yield a new folder with `etcd`, the data of an etcd with these objects; delete it at the end of the block."""
    with tempfile.TemporaryDirectory(prefix="retry-policy-curve-", ignore_cleanup_errors=True) as name:
        shutil.copytree(cached(size), Path(name, "etcd"))
        yield Path(name)


def cached(size: Size) -> Path:
    """Return the data of an etcd with these objects, from the cache, or else fill one."""
    made_from = msgspec.json.encode([originals(failed=size.failed), size, FILLING]).decode()
    key = toolchain.digest(made_from, Path(__file__).read_text(), binaries.ETCD.go_mod, binaries.kubernetes_version())
    prefix = "filled-" + "-".join(map(str, size))
    folder = toolchain.cache() / f"{prefix}-{key}"
    programs = binaries.build(binaries.own_cluster())
    with toolchain.only_one():
        if not folder.exists():
            for older in toolchain.cache().glob(f"{prefix}-*"):
                shutil.rmtree(older)
            unfinished = toolchain.cache() / ".filled"
            shutil.rmtree(unfinished, ignore_errors=True)
            fill(size, programs, unfinished)
            (unfinished / "etcd").rename(folder)
            shutil.rmtree(unfinished)
    return folder


def fill(size: Size, programs: dict[str, Path], folder: Path) -> None:
    """Store one object of each kind through an API server, then all others through etcd alone."""
    folder.mkdir(parents=True)
    processes = Processes(folder / "logs")
    processes.logs.mkdir()
    try:
        kubeconfig = control_plane.start_api(programs, processes, folder, "--disable-admission-plugins=ServiceAccount")
        kubectl = Kubectl(programs["kubectl"], kubeconfig)
        if size.failed:
            install_accounts(processes, kubectl)
        created = store_originals(kubectl, failed=size.failed)
        terminate(processes, "kube-apiserver")
        terminate(processes, "etcd")
        port, peer = free_ports(2)
        url = f"http://{HOST}:{port}"
        addresses = (f"--listen-client-urls={url}", f"--advertise-client-urls={url}")
        data = (f"--listen-peer-urls=http://{HOST}:{peer}", f"--data-dir={folder / 'etcd'}")
        processes.start("etcd", [programs["etcd"], *addresses, *data, *FILLING, QUOTA, "--log-level=warn"])
        processes.wait_until(lambda: Etcd.is_ready(port), "etcd", log="etcd")
        copy_originals(size, port, created)
        terminate(processes, "etcd")
    finally:
        processes.stop()


def terminate(processes: Processes, name: str) -> None:
    """End a program in order, so that its data is whole."""
    process = processes.running.pop(name)
    process.terminate()
    process.wait()


def install_accounts(processes: Processes, kubectl: Kubectl) -> None:
    """Install the CRD of Accounts; return when it is served."""
    manifests = yaml.safe_load_all((BASE / "accounts.yaml").read_text())
    kubectl.apply(next(one for one in manifests if one["kind"] == "CustomResourceDefinition"))
    processes.wait_until(
        lambda: not kubectl.run("get", "accounts", "--all-namespaces").returncode, "Accounts", log="kube-apiserver"
    )


def originals(*, failed: bool = False) -> dict[str, Json]:
    """Return the object of each kind that is stored through the API server, as our programs store it."""
    size = Size(1, 1)
    owner, running = stored_job(size, 0), stored_pod(size, 0)
    policy = parse(FIRST_POLICY.read_text())
    if not isinstance(policy, Policy):
        raise HarnessError(f"{FIRST_POLICY}: {policy}")
    root = job(owner.name, VARIABLES)
    root["metadata"]["namespace"] = owner.namespace
    root["spec"] |= {"completions": PARALLEL, "parallelism": PARALLEL}
    root = mutate(root, Facts(profile_name="default"), policy).object
    known = {**root, "metadata": {**root["metadata"], "uid": owner.uid}}
    pod = pod_of(known, VARIABLES)
    pod["metadata"] |= {"name": running.name, "namespace": owner.namespace}
    pod = mutate(pod, Facts(profile_name="default", owner=known, owners_known=True, disruptions=0), policy).object
    pod["spec"]["nodeName"] = running.node
    namespace = {"apiVersion": "v1", "kind": "Namespace"}
    labels = {names.PROFILE: "default"}
    return {
        "namespace": {**namespace, "metadata": {"name": owner.namespace, "labels": labels}},
        "node": own_node(running.node, spot=True),
        "job": root,
        "pod": pod,
        **({"account": account_of(known)} if failed else {}),
    }


def account_of(root: Json) -> Json:
    """Return the Account of a Job whose two pods have failed, as the ledger writes it."""
    name = root["metadata"]["name"]
    attempts = [
        Attempt(
            attempt=number,
            pod=f"{name}-{number:05}",
            node=f"node-{number:05}",
            placement="Spot",
            start=STARTED,
            end=STARTED,
            cause="ExitCode",
            reason="main 1",
            cost="retry",
            left=Left(retries=1 - number, disruptions=3),
            message=f"{LAST_WORDS} {number}",
        )
        for number in range(2)
    ]
    failed = Account(
        ended=2,
        cost={"retry": 2},
        causes={"ExitCode": {"main 1": 2}},
        spot=2,
        left=Left(retries=0, disruptions=3),
        applied=applied(Profile()),
        last=attempts,
        recent=list(RECENT),
        resources=["cpu", "memory"],
        lost={"ExitCode": {"Spot": UsedRow(2, 7200.0, 0, 0.0, [7200.0, 14400.0])}},
    )
    failed.conditions = stored.updated(failed, STARTED)
    return {**account.new(batch.JOB, root), "status": msgspec.json.decode(encode(failed))}


RECENT: Final = ("AAAAAAAA", "AAAAAAAB")  # the ids of the pods of Job number 0 in its Account
LAST_WORDS: Final = "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB, 39.56 GiB total, 1.81 GiB free;"

JOB_STATUS: Final[Json] = {"active": 2, "ready": 2, "startTime": STARTED, "uncountedTerminatedPods": {}}
FAILED_JOB_STATUS: Final[Json] = {
    "failed": 2,
    "ready": 0,
    "startTime": STARTED,
    "uncountedTerminatedPods": {},
    "conditions": [
        {
            "type": kind,
            "status": "True",
            "lastProbeTime": STARTED,
            "lastTransitionTime": STARTED,
            "reason": "BackoffLimitExceeded",
            "message": "Job has reached the specified backoff limit",
        }
        for kind in ("FailureTarget", "Failed")
    ],
}
CONDITIONS: Final = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")


def pod_status(*, failed: bool = False) -> Json:
    """Return the status of a pod that runs, or that has failed, as a kubelet writes it."""
    conditions = [
        {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": STARTED} for kind in CONDITIONS
    ]
    running = {
        "name": "main",
        "image": "registry.example.test/team/train:v1",
        "imageID": f"registry.example.test/team/train@sha256:{'0' * 64}",
        "containerID": f"containerd://{'0' * 64}",
        "ready": True,
        "started": True,
        "restartCount": 0,
        "state": {"running": {"startedAt": STARTED}},
    }
    if failed:
        running |= {"ready": False, "started": False}
        ended = {"exitCode": 1, "reason": "Error", "startedAt": STARTED, "finishedAt": STARTED, "message": LAST_WORDS}
        running["state"] = {"terminated": {**ended, "containerID": running["containerID"]}}
    return {
        "phase": "Failed" if failed else "Running",
        "conditions": conditions,
        "containerStatuses": [running],
        "hostIP": "10.1.2.3",
        "hostIPs": [{"ip": "10.1.2.3"}],
        "podIP": "10.2.3.4",
        "podIPs": [{"ip": "10.2.3.4"}],
        "qosClass": "Burstable",
        "startTime": STARTED,
    }


def store_originals(kubectl: Kubectl, *, failed: bool = False) -> dict[str, Json]:
    """Store an object of each kind; return them as the API server stores them, with uid and time of creation."""
    found: dict[str, Json] = {}
    for kind, root in originals(failed=failed).items():
        text = msgspec.json.encode(root).decode()
        if kind in {"pod", "account"}:
            text = text.replace(uid_of("job", 0), found["job"]["metadata"]["uid"])
        found[kind] = kubectl.create(msgspec.json.decode(text))
    job_status = FAILED_JOB_STATUS if failed else JOB_STATUS
    for kind, status in (("job", job_status), ("pod", pod_status(failed=failed))):
        metadata = found[kind]["metadata"]
        patch = msgspec.json.encode({"status": status}).decode()
        where = (f"--namespace={metadata['namespace']}", "--subresource=status", "--type=merge", f"--patch={patch}")
        done = kubectl.run("patch", kind, metadata["name"], *where)
        if done.returncode:
            raise HarnessError(done.stderr)
    return found


class Etcd:
    """A connection to the JSON gateway of an etcd."""

    def __init__(self, port: int) -> None:
        self.connection = http.client.HTTPConnection(HOST, port, timeout=60)

    @staticmethod
    def is_ready(port: int) -> bool:
        with closing(http.client.HTTPConnection(HOST, port, timeout=1)) as connection:
            try:
                connection.request("GET", "/health")
                return connection.getresponse().status == HTTPStatus.OK
            except OSError:
                return False

    def call(self, path: str, body: Json) -> Any:
        self.connection.request("POST", path, msgspec.json.encode(body), {"Content-Type": "application/json"})
        answer = self.connection.getresponse()
        text = answer.read()
        if answer.status != HTTPStatus.OK:
            raise HarnessError(f"etcd answered {answer.status} {text[:500]!r}")
        return msgspec.json.decode(text)

    def value(self, key: str) -> bytes:
        (found,) = self.call("/v3/kv/range", {"key": encoded(key.encode())})["kvs"]
        return base64.b64decode(found["value"])

    def put(self, objects: list[tuple[str, bytes]]) -> None:
        puts = [{"requestPut": {"key": encoded(key.encode()), "value": encoded(value)}} for key, value in objects]
        self.call("/v3/kv/txn", {"success": puts})


def encoded(value: bytes) -> str:
    return base64.b64encode(value).decode()


def copy_originals(size: Size, port: int, created: dict[str, Json]) -> None:
    """Write the objects of a size into the etcd at a port; the originals are number 0 of each kind, written again."""
    etcd = Etcd(port)
    first = stored_pod(size, 0)
    one_of_each = {
        "namespace": etcd.value(f"/registry/namespaces/{first.job.namespace}"),
        "node": etcd.value(f"/registry/minions/{first.node}"),
        "job": etcd.value(f"/registry/jobs/{first.job.namespace}/{first.job.name}"),
        "pod": etcd.value(f"/registry/pods/{first.job.namespace}/{first.name}"),
    }
    if size.failed:
        one_of_each["account"] = etcd.value(key_of_account(first.job))
    todo = copies(size, one_of_each, created)
    with ThreadPoolExecutor(WRITERS) as pool:
        clients = [Etcd(port) for _ in range(WRITERS)]
        while parts := [part for part in (list(islice(todo, BATCH)) for _ in clients) if part]:
            list(pool.map(Etcd.put, clients, parts))


def copies(size: Size, one_of_each: dict[str, bytes], created: dict[str, Json]) -> Iterator[tuple[str, bytes]]:
    """Yield key and value of each object, made from one stored object of each kind, which `created` has decoded."""
    job_uid, pod_uid = (created[kind]["metadata"]["uid"] for kind in ("job", "pod"))
    first = stored_pod(size, 0)
    times = {kind: seconds_of(created[kind]["metadata"]["creationTimestamp"]) for kind in one_of_each}
    for number in range(size.namespaces):
        name = stored_job(size, number).namespace
        new = {first.job.namespace: name, created["namespace"]["metadata"]["uid"]: uid_of("namespace", number)}
        yield f"/registry/namespaces/{name}", replaced(one_of_each["namespace"], new)
    for number in range(size.nodes):
        name = f"node-{number:05}"
        new = {first.node: name, created["node"]["metadata"]["uid"]: uid_of("node", number)}
        yield f"/registry/minions/{name}", replaced(one_of_each["node"], new)
    for number in range(size.jobs):
        owner = stored_job(size, number)
        new = {first.job.namespace: owner.namespace, first.job.name: owner.name, job_uid: owner.uid}
        value = replaced(one_of_each["job"], new)
        yield f"/registry/jobs/{owner.namespace}/{owner.name}", later(value, times["job"], number % SPREAD)
        if size.failed:
            new = {account_named(first.job): account_named(owner), **new}
            new[created["account"]["metadata"]["uid"]] = uid_of("account", number)
            counted = (id_of_uid(uid_of("pod", of_job)) for of_job in (number, number + size.jobs))
            new |= dict(zip(RECENT, counted, strict=True))
            yield key_of_account(owner), replaced(one_of_each["account"], new)
    for number in range(size.pods):
        pod = stored_pod(size, number)
        # The name of a pod begins with the name of its Job, so it is replaced first.
        new = {first.name: pod.name, first.job.name: pod.job.name, first.job.namespace: pod.job.namespace}
        new |= {job_uid: pod.job.uid, pod_uid: pod.uid, first.node: pod.node}
        value = replaced(one_of_each["pod"], new)
        yield f"/registry/pods/{pod.job.namespace}/{pod.name}", later(value, times["pod"], number % SPREAD)


def account_named(owner: StoredJob) -> str:
    """Return the name of the Account of a Job."""
    return account.name_of(batch.JOB, owner.name, owner.uid)


def key_of_account(owner: StoredJob) -> str:
    """Return where etcd has the Account of a Job."""
    return f"/registry/retry-policy.dev/accounts/{owner.namespace}/{account_named(owner)}"


def replaced(value: bytes, new: dict[str, str]) -> bytes:
    """Return stored bytes with other texts of the same lengths, because lengths are stored too."""
    for old, text in new.items():
        if len(old) != len(text):
            raise ValueError(f"{text!r} is not as long as {old!r}")
        value = value.replace(old.encode(), text.encode())
    return value


def later(value: bytes, created: int, seconds: int) -> bytes:
    """Return stored bytes with times before that of creation and of the start; protobuf stores both as varints."""
    for moment in {created, seconds_of(STARTED)}:
        value = value.replace(varint(moment), varint(moment - seconds))
    return value


def seconds_of(time: str) -> int:
    return int(datetime.fromisoformat(time).astimezone(UTC).timestamp())


def varint(number: int) -> bytes:
    """Return a positive number as protobuf encodes it."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])
