"""Errors, large requests and constants of the endpoints."""

import asyncio
import base64
import json
import subprocess
import sys
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from tests.admission import policy, review_of
from tests.metrics import counted
from tests.objects import exit_codes, job, job_spec, pod
from tests.unit.accounts.pods import disrupted
from webhook.admission import engine
from webhook.admission.review import Response
from webhook.admission.subject import read
from webhook.kube import names
from webhook.pods.pods import Condition
from webhook.policy.emergency import MESSAGE
from webhook.policy.model import Emergency, Placement, Policy, Profile, Wave
from webhook.policy.parse import load_default
from webhook.program.logs import NAMESPACE_LINES
from webhook.retry.admission import RetryAdmission
from webhook.serving import app, connections, endpoints
from webhook.serving.endpoints import LARGE, QUEUED, Endpoints
from webhook.serving.limits import LARGEST_BODY, LIMITS
from webhook.serving.server import HttpResponse
from webhook.tracking import cluster
from webhook.tracking.policy_source import PolicySource
from webhook.tracking.trackers import Trackers


def answered(body: bytes, rules: Any = engine.mutate, policy: Policy | None = None) -> HttpResponse:
    endpoints = Endpoints(PolicySource(policy or load_default()), None)
    return asyncio.run(endpoints.answer(body, "mutate", read, partial(endpoints.judge, rules)))


def broken(*_: object) -> Response:
    raise KeyError("a bug of ours")


def test_an_internal_error_gets_500_with_the_uid_and_no_stack_trace(capsys: pytest.CaptureFixture[str]) -> None:
    labels = {"path": "mutate", "kind": "Job", "operation": "CREATE", "result": "error"}
    before = counted("retry_policy_admission_requests_total", **labels)
    answer = answered(review_of(job()), broken)
    assert answer.status == 500
    assert "0c5a-uid" in answer.body.decode()
    assert "KeyError" not in answer.body.decode()
    assert counted("retry_policy_admission_requests_total", **labels) == before + 1
    assert "0c5a-uid" in capsys.readouterr().out


def test_a_dry_run_is_not_counted_as_an_edit() -> None:
    edits = partial(counted, "retry_policy_edits_total", rule="failure_policy", mode="Enforce")
    before = edits()
    answered(review_of(job(job_spec(backoffLimit=3)), dryRun=True))
    assert edits() == before
    answered(review_of(job(job_spec(backoffLimit=3))))
    assert edits() == before + 1


def large_review(size: int = LARGE) -> bytes:
    return review_of(job(annotations={"example.test/large": "x" * size}))


def test_between_two_large_requests_small_ones_are_answered() -> None:
    handler = Endpoints(PolicySource(load_default()), None).admission().by_path["/mutate"][1]
    answers: list[str] = []

    async def ask(name: str, body: bytes) -> None:
        assert (await handler(body)).status == 200
        answers.append(name)

    async def run() -> None:
        large = [asyncio.create_task(ask("large", large_review())) for _ in range(4)]
        while not all(task.done() for task in large):
            await ask("small", review_of(job()))
            await asyncio.sleep(0)

    asyncio.run(run())
    assert answers.count("large") == 4
    assert all(pair != ("large", "large") for pair in pairwise(answers))


def test_the_bytes_of_waiting_large_requests_are_limited_so_that_small_ones_have_room() -> None:
    assert LIMITS.held_bytes - QUEUED > LARGEST_BODY
    endpoints = Endpoints(PolicySource(load_default()), None)
    handler = endpoints.admission().by_path["/mutate"][1]
    body = large_review(QUEUED // 2)

    async def run() -> list[HttpResponse]:
        return await asyncio.gather(*(handler(one) for one in (body, body, review_of(job()))))

    first, second, small = asyncio.run(run())
    assert [first.status, second.status, small.status] == [200, 429, 200]
    assert second.headers["Retry-After"] == "1"
    assert endpoints.queued == 0


def test_the_timeouts_of_the_server_fit_those_of_the_api_server() -> None:
    assert connections.KEEP_ALIVE > 90
    assert app.DRAIN >= 10
    assert cluster.LOOKUP_TIMEOUT <= 1


def test_a_logged_error_does_not_contain_the_object() -> None:
    code = """
import structlog
from webhook.program import logs
logs.to_stderr()
def fails(container):
    raise ValueError("broken")
try:
    fails({"env": [{"name": "PASSWORD", "value": "s3cr3t"}]})
except ValueError:
    structlog.get_logger().exception("internal error")
"""
    done = subprocess.run((sys.executable, "-c", code), capture_output=True, text=True, check=True)
    assert "s3cr3t" not in done.stderr
    assert json.loads(done.stderr)["exception"][0]["exc_type"] == "ValueError"


def response_to(root: Any, rules: Any, policy: Policy | None = None) -> Any:
    answer = answered(review_of(root, name=root["metadata"].get("name", "")), rules, policy)
    return json.loads(answer.body)["response"]


def test_a_denial_names_its_object() -> None:
    message = response_to(job(job_spec(backoffLimit=25)), engine.validate)["status"]["message"]
    assert message.startswith("Job ml/train: spec.backoffLimit: 25 retries exceed the limit of 10")
    made_up = {**job(job_spec(backoffLimit=25)), "metadata": {"generateName": "train-"}}
    assert response_to(made_up, engine.validate)["status"]["message"].startswith("Job ml/train-*: spec.backoffLimit: ")


def test_a_warning_names_its_object() -> None:
    on_failure = job(job_spec(restart_policy="OnFailure", backoffLimit=3))
    assert response_to(on_failure, engine.mutate)["warnings"][0].startswith(
        "Job ml/train: spec.template.spec.restartPolicy: "
    )


ASKING = policy(default=Profile(message="Ask #batch, https://wiki.example/batch"))


def test_a_denial_ends_with_the_message_of_the_profile() -> None:
    denial = response_to(job(job_spec(backoffLimit=25)), engine.validate, ASKING)
    assert denial["status"]["message"].endswith("; set 10 or less\nAsk #batch, https://wiki.example/batch")


def test_warnings_end_with_the_message_of_the_profile_once() -> None:
    response = response_to(job(job_spec(restart_policy="OnFailure", backoffLimit=3)), engine.mutate, ASKING)
    assert response["warnings"][1:] == ["From your cluster admin: Ask #batch, https://wiki.example/batch"]


def test_while_retries_are_stopped_warnings_end_with_the_reason() -> None:
    stopped = replace(ASKING, emergency=Emergency(retries="Stop"))
    response = response_to(job(job_spec(backoffLimit=5)), engine.mutate, stopped)
    assert any("5 lowered to 0" in warning for warning in response["warnings"])
    assert response["warnings"][-1] == f"From your cluster admin: {MESSAGE}"


def test_a_refused_request_for_a_retry_ends_with_the_message_of_the_namespaces_profile() -> None:
    api: Any = None
    known = cluster.Cluster(api)
    known.namespaces.items["", "ml"] = ("default", None)
    retry_requests = RetryAdmission(api, known, controller="leader")
    server = Endpoints(PolicySource(ASKING), known, retry_requests=retry_requests)
    unreadable = review_of(job({"backoffLimit": "HUGE"}), userInfo={"username": "alice"}).replace(b'"HUGE"', b"1e999")
    answer = asyncio.run(server.admission().by_path["/retry"][1](unreadable))
    message = json.loads(answer.body)["response"]["status"]["message"].splitlines()
    assert message[0].startswith("Job ml/train: spec.backoffLimit: ")
    assert message[1:] == ["Ask #batch, https://wiki.example/batch"]


def test_without_messages_the_name_of_the_object_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints, "object_name", broken)
    assert "warnings" not in response_to(job(), engine.mutate)


def test_the_length_and_the_number_of_logged_denials_are_limited(capsys: pytest.CaptureFixture[str]) -> None:
    server = Endpoints(PolicySource(load_default()), None)
    handler = server.admission().by_path["/validate"][1]
    rules = [exit_codes("x" * 500, "NotIn", 143) for _ in range(20)]

    def lines(*names: str) -> list[str]:
        for name in names:
            asyncio.run(handler(review_of(job(job_spec(rules=rules), name=name), name=name)))
        return [line for line in capsys.readouterr().out.splitlines() if "denied" in line]

    (line,) = lines("train", "train")
    assert len(line) < 3000
    assert len(lines(*(f"train-{number}" for number in range(100)))) == NAMESPACE_LINES - 1


def test_a_denial_is_logged_with_the_name_of_the_object(capsys: pytest.CaptureFixture[str]) -> None:
    response_to({**job(job_spec(backoffLimit=25)), "metadata": {"generateName": "train-"}}, engine.validate)
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "denied" in line]
    for field in ("namespace=ml", "name=train-*", "kind=Job"):
        assert field in line


def test_a_pod_on_spot_avoids_a_zone_that_the_watch_of_pods_has_seen_losing_its_spot_pods() -> None:
    no_api: Any = None
    known = cluster.Cluster(no_api)
    known.namespaces.items["", "ml"] = ("default", None)
    known.namespaces.live = True
    known.known_nodes.zones.add("a")
    trackers = Trackers(known)
    lost = Condition("DisruptionTarget", "True", "EvictionByEvictionAPI", datetime.now(UTC).isoformat())
    for number in range(3):
        trackers.see_pod(disrupted(number, zone="a", conditions=(lost,)))
    under = policy(default=Profile(placement=Placement(provider="gke", wave=Wave())))
    server = Endpoints(PolicySource(under), known, trackers)
    own = pod(owner=None, annotations={names.INTERRUPTIBLE: "true"})
    answer = asyncio.run(server.admission().by_path["/mutate"][1](review_of(own)))
    patch = base64.b64decode(json.loads(answer.body)["response"]["patch"]).decode()
    assert '"values":["a"]' in patch
