"""Hostile objects through the real API server: these and other requests are answered."""

from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.conftest import opted_in
from tests.objects import exit_codes, job, job_spec, pod
from webhook.kube import names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.conftest import NewNamespace
    from tests.cluster.kubectl import Object
    from tests.cluster.namespace import Namespace

OTHERS = 20  # the least number of other objects that are admitted one after another
JOBS = "apis/batch/v1/namespaces/{}/jobs"
PODS = "api/v1/namespaces/{}/pods"

LONG_RULES = [exit_codes("FailJob", "NotIn", *range(1, 40_001), container="main") for _ in range(2)]
# The API server itself compares each pair of these.
MISSING = [exit_codes("FailJob", "In", 1, container=f"missing-{index}") for index in range(2_000)]
CONTAINERS = tuple({"name": f"container-{index}", "image": "x"} for index in range(2_000))
TERMS = [{"matchExpressions": [{"key": f"example.test/{index}", "operator": "Exists"}]} for index in range(20_000)]
REQUIRED = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": TERMS}}
RECORD = json.dumps({"profile": "default", "injected": [{"op": "add", "path": "/spec/backoffLimit", "now": 3}] * 4_000})
HOSTILE: dict[str, tuple[str, Object]] = {
    "long rules": (JOBS, job(job_spec(rules=LONG_RULES))),
    "rules that name missing containers": (JOBS, job(job_spec(rules=MISSING, containers=CONTAINERS))),
    "rules with many pod conditions": (
        JOBS,
        job(job_spec(rules=[{"action": "Count", "onPodConditions": [{"type": "A"}] * 60_000}])),
    ),
    "a long policy annotation": (JOBS, job(annotations={names.POLICY: RECORD})),
    "many variables": (
        JOBS,
        job(job_spec(containers=({"name": "main", "image": "x", "env": [{"name": "A"}] * 90_000},))),
    ),
    "many node selector terms": (
        PODS,
        pod({"affinity": {"nodeAffinity": REQUIRED}}, owner=None, annotations={names.ATTEMPT: "1"}),
    ),
}


def sent(team: Namespace, path: str, root: Object) -> Object:
    root = {**root, "metadata": {**root["metadata"], "namespace": team.name, "generateName": None, "name": "hostile"}}
    return team.api.dry_run(path.format(team.name), root)


@pytest.fixture
def attacked(namespace: NewNamespace) -> Iterator[list[Object]]:
    """Send all of the objects again and again while the block runs; yield the API server's answers."""
    team, answers, over = opted_in(namespace), list[Any](), threading.Event()

    def attack() -> None:
        while not over.is_set():
            answers.extend(sent(team, path, root) for path, root in HOSTILE.values() if not over.is_set())

    attacker = threading.Thread(target=attack)
    attacker.start()
    yield answers
    over.set()
    attacker.join()


@pytest.mark.parametrize(("path", "root"), HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_object_is_answered_by_the_webhook(namespace: NewNamespace, path: str, root: Object) -> None:
    answer = sent(opted_in(namespace), path, root)
    assert "failed calling webhook" not in answer.get("message", "")
    assert answer["kind"] in {"Job", "Pod"} or answer["code"] == 422, answer["message"][:1000]


def test_other_jobs_are_admitted_while_hostile_objects_are_sent(
    attacked: list[Object], namespace: NewNamespace, record_testsuite_property: Callable[[str, object], None]
) -> None:
    team, longest, done = opted_in(namespace), 0.0, 0
    while done < OTHERS or len(attacked) < len(HOSTILE):
        begun = time.monotonic()
        answer = sent(team, JOBS, job(job_spec(backoffLimit=3)))
        longest, done = max(longest, time.monotonic() - begun), done + 1
        assert answer["kind"] == "Job", answer
        assert answer["metadata"]["labels"][names.PROFILE] == "default"
    record_testsuite_property("seconds of the longest admission", round(longest, 3))
    record_testsuite_property("hostile objects beside it", len(attacked))
