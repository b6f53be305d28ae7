"""The cost of a request in instructions of Python's virtual machine, which is the same on every machine and run.

A change that makes a request more expensive on purpose raises its number here; its commit says why. Other Pythons count
slightly differently. `make bench` measures time, and compares it with other webhooks.
"""

import asyncio
import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import patch

import msgspec
import pytest
from msgspec.structs import replace

from tests.admission import lacking, policy, review_of
from tests.listening import Sent
from tests.objects import job, job_spec, pod, stored_job
from tests.unit.accounts.pods import disrupted, failed
from webhook.kube import names
from webhook.pods.pods import Pod
from webhook.policy.model import (
    Delay,
    Diagnostics,
    Duration,
    FailureRule,
    Match,
    MemoryGrowth,
    Next,
    Placement,
    Policy,
    Profile,
)
from webhook.serving import endpoints
from webhook.serving.connections import Connections
from webhook.serving.endpoints import Endpoints
from webhook.serving.server import Server
from webhook.tracking.cluster import Cluster
from webhook.tracking.policy_source import PolicySource
from webhook.tracking.trackers import Trackers

ROOT = str(Path(endpoints.__file__).parents[1])  # of this project's code; that of aiohttp is not counted
POLICY = policy(default=Profile(placement=Placement(provider="gke", spot="Require")))
RULES = (  # those of docs/reference/on-failure.md
    FailureRule(match=Match(cause="OOMKilled"), next=Next(memory=MemoryGrowth(limit="64Gi"))),
    FailureRule(match=Match(exit_codes=(75,)), next=Next(cost="Free", delay=Delay(initial=Duration(30)))),
    FailureRule(match=Match(message="*NCCL*", containers=("main",)), next=Next(avoid="Node")),
    FailureRule(match=Match(cause="Disruption"), next=Next(avoid="Zone")),
    FailureRule(match=Match(cause="NeverStarted"), next=Next(cost="Fatal")),
)
# Messages are needed by one of the rules; what they cost is not counted as the cost of rules.
BESIDE = Profile(placement=Placement(provider="gke", spot="Require"), diagnostics=Diagnostics(last_words=True))
WITHOUT_RULES = policy(default=BESIDE)
WITH_RULES = policy(default=replace(BESIDE, on_failure=RULES))
MORE = 1.15  # times the instructions that a profile with five rules may cost
# One edit: what other edits cost is the business of their rules, whose checks alone are counted.
JOB = review_of(lacking(job(job_spec(backoffLimit=3)), ("spec", "podFailurePolicy")))
HEAD = b"POST /%b?timeout=5s HTTP/1.1\r\nHost: x\r\nUser-Agent: kube-apiserver-admission\r\nContent-Length: %d\r\n\r\n"
SLACK = 1.0 if sys.version_info[:2] == (3, 11) else 1.1  # the numbers below are those of Python 3.11
ENV = [{"name": f"VARIABLE_{number}", "value": "a value of ordinary length"} for number in range(1000)]


def warm(under: Policy = POLICY, ended: tuple[Pod, ...] = ()) -> Endpoints:
    """Return a server with filled caches: an opted-in namespace, and a Job with one failed pod.

    `ended`: the failed pods that the watch of pods has delivered.
    """
    no_api: Any = None
    cluster = Cluster(no_api)
    trackers = Trackers(cluster)
    cluster.namespaces.items["", "ml"] = ("default", None)
    root = stored_job(job_spec(backoffLimit=3), {"failed": 1})
    root["metadata"] = {
        **root["metadata"],
        "namespace": "ml",
        "resourceVersion": "1",
        "labels": {names.PROFILE: "default"},
    }
    read = cluster.jobs.read(msgspec.Raw(msgspec.json.encode(root)))
    assert read is not None
    key, kept = read
    cluster.jobs.items[key] = kept
    trackers.see_job(kept)
    for one in ended:
        trackers.see_pod(one)
    for cache in (cluster.namespaces, cluster.jobs, trackers.pods):
        cache.live = True
        cache.synced.set()
    return Endpoints(PolicySource(under), cluster, trackers)


def instructions(
    body: bytes, path: bytes = b"mutate", *, under: Policy = POLICY, ended: tuple[Pod, ...] = ()
) -> Counter[str]:
    """Return the instructions from the bytes of a request to those of its answer, by function.

    `under` and `ended`: as of `warm`.
    """
    counted: Counter[str] = Counter()

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(ROOT):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode":
            counted[f"{Path(frame.f_code.co_filename).stem}.{frame.f_code.co_name}"] += 1
        return trace

    async def run() -> None:
        sent = Sent()
        routes = warm(under, ended).admission()
        connection = Server(routes, Connections(routes.bodies.limits))()
        connection.connection_made(sent)
        request = HEAD % (path, len(body)) + body

        async def ask() -> None:
            sent.written.clear()
            connection.data_received(request)
            await sent.written.wait()

        for _ in range(3):  # so that caches are filled
            await ask()
        before = sys.gettrace()
        with (
            patch.object(endpoints, "perf_counter", lambda: 0.0),  # the cost of the histogram depends on the bucket
        ):
            sys.settrace(trace)
            await ask()
            sys.settrace(before)
        assert sent.answers[-1].startswith(b"HTTP/1.1 200 OK")
        connection.connection_lost(None)

    asyncio.run(run())
    return counted


def pod_of_a_job(variables: int = 20) -> bytes:
    spec = {**pod()["spec"], "containers": [{"name": "main", "image": "x", "env": ENV[:variables]}]}
    return review_of(pod(spec, labels={"batch.kubernetes.io/job-name": "train"}))


@pytest.mark.parametrize(
    ("body", "most"),
    [
        pytest.param(pod_of_a_job(), 4390, id="a pod of a Job"),
        pytest.param(review_of(pod(owner=None)), 867, id="a pod without a controller"),
        pytest.param(JOB, 6230, id="a Job with a warning"),
    ],
)
def test_a_request_without_rules_of_on_failure_costs_no_more_than_before_there_were_any(body: bytes, most: int) -> None:
    """The numbers are those of commit 6035f86, the last one before the section onFailure."""
    counted = instructions(body)
    assert counted.total() <= most * SLACK, counted.most_common(30)


@pytest.mark.parametrize(
    ("body", "ended"),
    [
        pytest.param(pod_of_a_job(), (), id="the first pod of a Job"),
        pytest.param(review_of(pod(owner=None)), (), id="a pod without a controller"),
        pytest.param(pod_of_a_job(), (failed(),), id="the pod after a failure that no rule matches"),
        pytest.param(pod_of_a_job(), (disrupted(),), id="the pod after a disruption"),
        pytest.param(JOB, (), id="a Job with a warning"),
    ],
)
def test_five_rules_of_on_failure_add_at_most_15_percent_to_a_request(body: bytes, ended: tuple[Pod, ...]) -> None:
    without, with_rules = (instructions(body, under=under, ended=ended) for under in (WITHOUT_RULES, WITH_RULES))
    assert with_rules.total() <= without.total() * MORE, (with_rules - without).most_common(30)


def test_fields_of_a_pod_that_no_rule_reads_have_no_cost() -> None:
    assert instructions(pod_of_a_job(1000)) == instructions(pod_of_a_job(1))
