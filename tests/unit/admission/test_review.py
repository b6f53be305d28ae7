"""Decoding and encoding of AdmissionReviews, and their limits."""

import base64
import json
from typing import Any

import msgspec
import pytest

from webhook.admission import review
from webhook.admission.review import BadReviewError, GroupVersionKind, Request, Response
from webhook.objects.problem import Json, Problem


def body(**fields: Any) -> bytes:
    request = {"uid": "u-1", "kind": {"group": "batch", "version": "v1", "kind": "Job"}, "operation": "CREATE"}
    envelope = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {**request, **fields}}
    return msgspec.json.encode(envelope)


def request_of(**fields: Any) -> Request:
    return review.decode(body(**fields))


def refusal(data: bytes) -> str:
    with pytest.raises(BadReviewError) as raised:
        review.decode(data)
    return str(raised.value)


def test_the_fields_that_the_rules_need_are_decoded() -> None:
    request = request_of(
        namespace="ml", name="train", subResource="status", dryRun=True, object={"spec": 1}, userInfo={"username": "a"}
    )
    assert (request.uid, request.operation, request.namespace, request.name) == ("u-1", "CREATE", "ml", "train")
    assert request.kind == GroupVersionKind(group="batch", version="v1", kind="Job")
    assert (request.sub_resource, request.dry_run) == ("status", True)
    assert review.decode_value(request.object) == {"spec": 1}


def test_a_field_that_the_api_server_leaves_out_has_a_default() -> None:
    request = request_of(kind={"version": "v1", "kind": "Pod"})
    assert (request.kind.group, request.namespace, request.name, request.sub_resource) == ("", "", "", "")
    assert request.dry_run is False
    assert review.decode_value(request.object) is review.decode_value(request.old_object) is None


def test_each_call_of_decode_value_returns_a_new_object() -> None:
    request = request_of(operation="UPDATE", oldObject={"spec": {"suspend": True}})
    first, second = review.decode_value(request.old_object), review.decode_value(request.old_object)
    first["spec"]["suspend"] = False
    assert second == {"spec": {"suspend": True}}


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE", "DELETE", "CONNECT"])
def test_every_operation_of_the_api_is_decoded(operation: str) -> None:
    assert request_of(operation=operation).operation == operation


def test_text_beyond_ascii_is_decoded() -> None:
    root = {"metadata": {"annotations": {"a": "日本 é 😀"}}}
    assert review.decode_value(request_of(object=root).object) == root


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "the body is not an AdmissionReview: Input data was truncated"),
        (b"nonsense", "the body is not an AdmissionReview: JSON is malformed"),
        (b"[]", "the body is not an AdmissionReview: Expected `object`, got `array`"),
        (b"{}", "missing required field `apiVersion`"),
        (body(operation="PATCH"), "Invalid enum value 'PATCH' - at `$.request.operation`"),
        (body(uid=5), "Expected `str`, got `int` - at `$.request.uid`"),
        (body(uid=""), "request.uid is empty"),
        (body(kind="Job"), "at `$.request.kind`"),
        (body().replace(b"u-1", b"\xff"), "the body is not UTF-8 (byte "),
        (body().replace(b"v1", b"v1beta1", 1), "'admission.k8s.io/v1beta1 AdmissionReview'; send an AdmissionReview"),
        (body().replace(b"AdmissionReview", b"TokenReview"), "'admission.k8s.io/v1 TokenReview'"),
        (body().replace(b'"u-1"', b'"u-1","extra":' + b"[" * 100_000), "nested too deeply"),
        (body(object="HERE").replace(b'"HERE"', b"[" * 100_000 + b"]" * 100_000), "nested too deeply"),
    ],
)
def test_a_body_that_is_no_admission_review_is_rejected_with_the_reason(data: bytes, sentence: str) -> None:
    assert sentence in refusal(data)


def test_invalid_utf_8_is_rejected_even_in_fields_that_are_not_read() -> None:
    assert refusal(body(userInfo={"username": "NAME"}).replace(b"NAME", b"\xff\xfe")).startswith(
        "the body is not UTF-8 (byte "
    )


def test_a_long_wrong_kind_is_cut_in_the_message() -> None:
    assert len(refusal(body().replace(b"AdmissionReview", b"x" * 10_000))) < 300


PROBLEMS = [Problem(("spec", "a"), "is 1", "set 2"), Problem(("spec", "b", 0), "is missing", "must be there")]
FOUND = [("schema", problem) for problem in PROBLEMS]


def answer(**fields: Any) -> Json:
    """Return the response in an AdmissionReview, after a check of its other fields."""
    envelope = json.loads(review.encode("u-1", Response(**fields)))
    response: Json = envelope.pop("response")
    assert envelope == {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
    assert response.pop("uid") == "u-1"
    return response


def test_an_empty_response_says_only_that_the_object_is_allowed() -> None:
    assert answer() == {"allowed": True}


def test_a_patch_is_encoded_in_base64_with_its_type() -> None:
    patch = '[{"op":"add","path":"/metadata/labels","value":{"é":"?>~"}}]'.encode()
    response = answer(patch=patch)
    assert (response["allowed"], response["patchType"]) == (True, "JSONPatch")
    assert base64.b64decode(response["patch"], validate=True) == patch


def test_a_denial_has_code_422_and_one_line_for_each_problem() -> None:
    assert answer(found=FOUND) == {
        "allowed": False,
        "status": {
            "code": 422,
            "reason": "Invalid",
            "message": "spec.a: is 1; set 2\nspec.b[0]: is missing; must be there",
        },
    }


def test_a_denial_has_no_patch() -> None:
    response = answer(found=FOUND, patch=b"[]")
    assert not response["allowed"]
    assert "patch" not in response
    assert "patchType" not in response


@pytest.mark.parametrize("verdict", [{}, {"found": FOUND}, {"patch": b"[]"}])
def test_every_response_can_have_warnings(verdict: Json) -> None:
    assert answer(warnings=PROBLEMS, **verdict)["warnings"] == [
        "spec.a: is 1; set 2",
        "spec.b[0]: is missing; must be there",
    ]


@pytest.mark.parametrize("verdict", [{}, {"found": FOUND}, {"patch": b"[]"}])
def test_every_response_can_have_audit_annotations(verdict: Json) -> None:
    assert answer(audit={"would-deny": "a"}, **verdict)["auditAnnotations"] == {"would-deny": "a"}


def warnings_of(*whats: str) -> list[str]:
    found: list[str] = answer(warnings=[Problem((), what, "r") for what in whats])["warnings"]
    return found


def test_a_warning_is_cut_to_256_characters() -> None:
    fits, cut = warnings_of("x" * 253, "y" * 254)
    assert fits == "x" * 253 + "; r"
    assert cut == "y" * 254 + ";…"
    assert (len(fits), len(cut)) == (256, 256)


def test_a_denial_begins_with_the_name_of_the_object() -> None:
    assert answer(found=FOUND, name="Job team/b")["status"]["message"] == (
        "Job team/b: spec.a: is 1; set 2\nspec.b[0]: is missing; must be there"
    )


def test_each_warning_names_the_object_because_kubectl_prints_equal_warnings_once() -> None:
    assert answer(warnings=PROBLEMS, name="Job team/b")["warnings"] == [
        "Job team/b: spec.a: is 1; set 2",
        "Job team/b: spec.b[0]: is missing; must be there",
    ]


def test_the_longest_name_of_a_job_leaves_120_characters_for_the_warning() -> None:
    job = f"Job {'n' * 63}/{'j' * 63}"
    (text,) = answer(warnings=[Problem((), "x" * 117, "r")], name=job)["warnings"]
    assert text == f"{job}: {'x' * 117}; r"
    (text,) = answer(warnings=[Problem((), "x" * 117, "r")], name=job + "j" * 190)["warnings"]
    assert text.endswith(f"j…: {'x' * 117}; r")
    assert len(text) == 256


def test_a_warning_has_no_line_breaks() -> None:
    assert warnings_of("a\nb\r\n\tc\u2028d\x85e") == ["a b c d e; r"]


def test_the_warnings_of_one_response_have_at_most_half_of_the_apis_limit() -> None:
    found = warnings_of(*(f"{number} " + "é" * 1000 for number in range(100)))
    assert sum(len(text) for text in found) <= 4096 // 2
    assert [text.split()[0] for text in found[:-1]] == [str(number) for number in range(7)]


def test_the_last_warning_counts_those_that_were_left_out() -> None:
    found = warnings_of(*("x" * 100 for _ in range(100)))
    assert len(found) == 18
    assert found[-1] == "and 83 more warnings"
    assert len(warnings_of(*("x" * 100 for _ in range(17)))) == 17


def test_the_message_of_a_profile_ends_a_denial_and_is_not_a_warning_too() -> None:
    response = answer(found=FOUND, warnings=PROBLEMS, name="Job team/b", message="Ask #batch")
    assert response["status"]["message"].splitlines() == [
        "Job team/b: spec.a: is 1; set 2",
        "spec.b[0]: is missing; must be there",
        "Ask #batch",
    ]
    assert not any("Ask #batch" in text for text in response["warnings"])


def test_the_message_of_a_profile_is_the_last_warning_if_there_are_others_and_names_its_sender() -> None:
    warnings = answer(warnings=PROBLEMS, name="Job team/b", message="Ask #batch")["warnings"]
    assert warnings[2:] == ["From your cluster admin: Ask #batch"]
    assert answer(message="Ask #batch") == {"allowed": True}


def test_the_message_of_a_profile_fits_beside_the_most_warnings() -> None:
    found = answer(warnings=[Problem((), "x" * 1000, "r")] * 100, name="Job team/b", message="m" * 200)["warnings"]
    assert found[-2:] == ["Job team/b: and 94 more warnings", f"From your cluster admin: {'m' * 200}"]
    assert sum(map(len, found)) <= 2048
