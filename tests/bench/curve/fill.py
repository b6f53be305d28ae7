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

from tests.admission import mutate
from tests.bench.reviews import job, pod_of
from tests.cluster import binaries, control_plane, toolchain
from tests.cluster.control_plane import HOST, free_ports
from tests.cluster.installation import FIRST_POLICY
from tests.cluster.kubectl import Kubectl
from tests.cluster.nodes import own_node
from tests.cluster.processes import HarnessError, Processes
from webhook.kube import names
from webhook.objects.problem import Json
from webhook.policy.model import Policy
from webhook.policy.parse import parse
from webhook.rules.facts import Facts

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
    """The numbers of objects in a cluster; `namespaces` are opted in, and the Jobs are spread over them."""

    jobs: int
    pods: int
    nodes: int = 1000
    namespaces: int = NAMESPACES

    def __str__(self) -> str:
        return f"{self.jobs:,} Jobs, {self.pods:,} pods, {self.nodes:,} nodes, {self.namespaces:,} namespaces"


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
    made_from = msgspec.json.encode([originals(), size, FILLING]).decode()
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
        created = store_originals(Kubectl(programs["kubectl"], kubeconfig))
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


def originals() -> dict[str, Json]:
    """Return the object of each kind that is stored through the API server, as our webhook stores it."""
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
    }


JOB_STATUS: Final[Json] = {"active": 2, "ready": 2, "startTime": STARTED, "uncountedTerminatedPods": {}}
CONDITIONS: Final = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")


def pod_status() -> Json:
    """Return the status of a running pod, as a kubelet writes it."""
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
    return {
        "phase": "Running",
        "conditions": conditions,
        "containerStatuses": [running],
        "hostIP": "10.1.2.3",
        "hostIPs": [{"ip": "10.1.2.3"}],
        "podIP": "10.2.3.4",
        "podIPs": [{"ip": "10.2.3.4"}],
        "qosClass": "Burstable",
        "startTime": STARTED,
    }


def store_originals(kubectl: Kubectl) -> dict[str, Json]:
    """Store an object of each kind; return them as the API server stores them, with uid and time of creation."""
    found: dict[str, Json] = {}
    for kind, root in originals().items():
        text = msgspec.json.encode(root).decode()
        if kind == "pod":
            text = text.replace(uid_of("job", 0), found["job"]["metadata"]["uid"])
        found[kind] = kubectl.create(msgspec.json.decode(text))
    for kind, status in (("job", JOB_STATUS), ("pod", pod_status())):
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
    for number in range(size.pods):
        pod = stored_pod(size, number)
        # The name of a pod begins with the name of its Job, so it is replaced first.
        new = {first.name: pod.name, first.job.name: pod.job.name, first.job.namespace: pod.job.namespace}
        new |= {job_uid: pod.job.uid, pod_uid: pod.uid, first.node: pod.node}
        value = replaced(one_of_each["pod"], new)
        yield f"/registry/pods/{pod.job.namespace}/{pod.name}", later(value, times["pod"], number % SPREAD)


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
