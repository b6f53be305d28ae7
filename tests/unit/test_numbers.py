"""A JSON value that no field of the API can have is a problem like any other, never status 500."""

import asyncio
from functools import partial
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from tests.admission import policy, review_of
from tests.hostile import ROWS, long_object, long_places
from tests.objects import job, job_spec, pod
from webhook.admission import engine
from webhook.admission.subject import read
from webhook.kube import names
from webhook.objects.problem import Json
from webhook.retry.admission import RetryAdmission
from webhook.serving.endpoints import Endpoints
from webhook.serving.server import HttpResponse
from webhook.tracking.cluster import Cluster
from webhook.tracking.policy_source import PolicySource

HERE: Final = "value that stands here"
QUOTED: Final = f'"{HERE}"'.encode()
TOO_LARGE: Final = [
    b"1e400",
    b"-1e400",
    b"9" * 5000,
    b"-" + b"9" * 4301,
    b"9" * 4300,
    b"9" * 30,
    b"18446744073709551616",
]
ENDPOINTS: Final = Endpoints(PolicySource(policy()), None)


def answer_of(root: Any, text: bytes, rules: Any, old: Any = None) -> HttpResponse:
    """Return the answer for an object with a JSON text in place of HERE."""
    body = review_of(root, old=old).replace(QUOTED, text)
    with capture_logs():  # printing tracebacks takes long
        return asyncio.run(ENDPOINTS.answer(body, "mutate", read, partial(ENDPOINTS.judge, rules)))


def response_of(answer: HttpResponse) -> Json:
    assert answer.status == 200
    found: Json = msgspec.json.decode(answer.body)["response"]
    return found


@pytest.mark.parametrize("text", TOO_LARGE, ids=lambda text: text[:8].decode())
@pytest.mark.parametrize("field", ["backoffLimit", "backoffLimitPerIndex", "completions", "parallelism"])
def test_a_number_out_of_range_is_not_edited_and_is_denied_with_its_path(field: str, text: bytes) -> None:
    root = job({**job_spec(), field: HERE})
    denial = response_of(answer_of(root, text, engine.validate))
    assert denial["status"]["code"] == 422
    assert f"spec.{field}: " in denial["status"]["message"]
    untouched = response_of(answer_of(root, text, engine.mutate))
    assert untouched["allowed"]
    assert "patch" not in untouched
    assert f"spec.{field}: " in untouched["warnings"][0]


@pytest.mark.parametrize("text", TOO_LARGE, ids=lambda text: text[:8].decode())
def test_a_number_out_of_range_in_the_old_object_is_denied_too(text: bytes) -> None:
    message = response_of(answer_of(job(), text, engine.validate, job(job_spec(backoffLimit=HERE))))["status"][
        "message"
    ]
    assert "oldObject.spec.backoffLimit: " in message


@pytest.mark.parametrize("text", [b"1e400", b"9" * 5000])
def test_a_number_out_of_range_in_a_field_that_no_rule_reads_is_denied_except_in_a_pod(text: bytes) -> None:
    assert not response_of(answer_of(job(job_spec(example=HERE)), text, engine.validate))["allowed"]
    bare = pod({"example": HERE}, owner=None, annotations={names.ATTEMPT: "1"})
    assert response_of(answer_of(bare, text, engine.validate))["allowed"]
    assert response_of(answer_of(bare, text, engine.mutate))["allowed"]


@pytest.mark.parametrize("text", [b"1e400", b"9" * 5000])
def test_a_number_out_of_range_in_a_request_for_a_retry_is_denied(text: bytes) -> None:
    no_api: Any = None
    requests = RetryAdmission(no_api, Cluster(no_api), controller="leader")
    body = review_of(job({**job_spec(), "example": HERE}), userInfo={"username": "ann"}).replace(QUOTED, text)
    answer = asyncio.run(
        ENDPOINTS.answer(body, "retry", requests.read, partial(ENDPOINTS.judge_retry_request, requests))
    )
    assert "spec.example: " in response_of(answer)["status"]["message"]


@pytest.mark.parametrize("text", [rb'"\ud800"', rb'"\q"', b"01", b"NaN", b"'x'", b"\xff", b'"\xff"', b"[" * 100_000])
def test_text_that_is_not_json_gets_400(text: bytes) -> None:
    assert answer_of(job(job_spec(example=HERE)), text, engine.validate).status == 400


TEXTS: Final = st.one_of(
    st.sampled_from([*TOO_LARGE, b"-0", b"1.0", b"1e2", b"null", b"true", rb'"\u0000"', rb'"\ud83d\ude00"', b'{"":0}']),
    st.integers(1, 1100).map(lambda depth: b"[" * depth + b"]" * depth),
    st.integers(1, 1100).map(lambda depth: b'{"a":' * depth + b"0" + b"}" * depth),
    st.integers().map(lambda number: str(number).encode()),
    st.floats().map(lambda number: repr(number).encode()),
)


@given(st.sampled_from(ROWS), st.data(), TEXTS)
@settings(max_examples=300, deadline=None)
def test_no_value_in_any_field_causes_an_internal_error(row: Any, data: st.DataObject, text: bytes) -> None:
    root = long_object(row, data.draw(st.sampled_from(list(long_places(row.shape)))), 1)
    where, key = data.draw(st.sampled_from(list(places_in(root))))
    recorded, updated = data.draw(st.tuples(st.booleans(), st.booleans()))
    where[key] = HERE
    if recorded:
        record = {"profile": "default", "injected": [{"op": "add", "path": "/spec", "now": HERE, "was": HERE}]}
        encoded = msgspec.json.encode(record).replace(QUOTED, text)
        root["metadata"].setdefault("annotations", {})
        if isinstance(root["metadata"]["annotations"], dict):
            root["metadata"]["annotations"][names.POLICY] = encoded.decode()
    for rules in (engine.mutate, engine.validate):
        assert answer_of(root, text, rules, root if updated else None).status in {200, 400}


def places_in(value: Any) -> Any:
    """Yield each object and list in a value with each of its keys, except apiVersion and kind."""
    for key in value if isinstance(value, dict) else range(len(value)):
        if key not in {"apiVersion", "kind", "metadata"}:
            yield value, key
        if isinstance(value[key], dict | list):
            yield from places_in(value[key])
