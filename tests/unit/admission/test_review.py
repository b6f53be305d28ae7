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


def test_a_request_is_read_with_what_the_rules_need() -> None:
    request = request_of(
        namespace="ml", name="train", subResource="status", dryRun=True, object={"spec": 1}, userInfo={"username": "a"}
    )
    assert (request.uid, request.operation, request.namespace, request.name) == ("u-1", "CREATE", "ml", "train")
    assert request.kind == GroupVersionKind(group="batch", version="v1", kind="Job")
    assert (request.sub_resource, request.dry_run) == ("status", True)
    assert review.decode_value(request.object) == {"spec": 1}


def test_what_the_api_server_leaves_out_has_a_default() -> None:
    request = request_of(kind={"version": "v1", "kind": "Pod"})
    assert (request.kind.group, request.namespace, request.name, request.sub_resource) == ("", "", "", "")
    assert request.dry_run is False
    assert review.decode_value(request.object) is review.decode_value(request.old_object) is None


def test_each_one_who_asks_gets_an_object_of_its_own() -> None:
    request = request_of(operation="UPDATE", oldObject={"spec": {"suspend": True}})
    first, second = review.decode_value(request.old_object), review.decode_value(request.old_object)
    first["spec"]["suspend"] = False
    assert second == {"spec": {"suspend": True}}


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE", "DELETE", "CONNECT"])
def test_the_operations_of_the_api_are_read(operation: str) -> None:
    assert request_of(operation=operation).operation == operation


def test_text_beyond_ascii_is_read() -> None:
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
def test_what_is_no_admission_review_is_refused_with_a_sentence(data: bytes, sentence: str) -> None:
    assert sentence in refusal(data)


def test_invalid_utf_8_is_found_even_in_fields_that_nobody_reads() -> None:
    assert refusal(body(userInfo={"username": "NAME"}).replace(b"NAME", b"\xff\xfe")).startswith(
        "the body is not UTF-8 (byte "
    )


def test_a_wrong_kind_is_not_repeated_at_full_length() -> None:
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


def test_an_object_that_is_left_alone_is_allowed_and_nothing_else_is_said() -> None:
    assert answer() == {"allowed": True}


def test_a_patch_goes_in_base64_with_its_type() -> None:
    patch = '[{"op":"add","path":"/metadata/labels","value":{"é":"?>~"}}]'.encode()
    response = answer(patch=patch)
    assert (response["allowed"], response["patchType"]) == (True, "JSONPatch")
    assert base64.b64decode(response["patch"], validate=True) == patch


def test_a_denial_carries_code_422_and_all_problems_one_a_line() -> None:
    assert answer(found=FOUND) == {
        "allowed": False,
        "status": {
            "code": 422,
            "reason": "Invalid",
            "message": "spec.a: is 1; set 2\nspec.b[0]: is missing; must be there",
        },
    }


def test_a_denial_carries_no_patch() -> None:
    response = answer(found=FOUND, patch=b"[]")
    assert not response["allowed"]
    assert "patch" not in response
    assert "patchType" not in response


@pytest.mark.parametrize("verdict", [{}, {"found": FOUND}, {"patch": b"[]"}])
def test_warnings_go_with_every_verdict(verdict: Json) -> None:
    assert answer(warnings=PROBLEMS, **verdict)["warnings"] == [
        "spec.a: is 1; set 2",
        "spec.b[0]: is missing; must be there",
    ]


@pytest.mark.parametrize("verdict", [{}, {"found": FOUND}, {"patch": b"[]"}])
def test_audit_annotations_go_with_every_verdict(verdict: Json) -> None:
    assert answer(audit={"would-deny": "a"}, **verdict)["auditAnnotations"] == {"would-deny": "a"}


def warnings_of(*whats: str) -> list[str]:
    found: list[str] = answer(warnings=[Problem((), what, "r") for what in whats])["warnings"]
    return found


def test_a_warning_of_256_characters_is_whole_and_a_longer_one_is_cut_to_256() -> None:
    fits, cut = warnings_of("x" * 253, "y" * 254)
    assert fits == "x" * 253 + "; r"
    assert cut == "y" * 254 + ";…"
    assert (len(fits), len(cut)) == (256, 256)


def test_a_denial_begins_with_the_name_of_the_object() -> None:
    assert answer(found=FOUND, name="Job team/b")["status"]["message"] == (
        "Job team/b: spec.a: is 1; set 2\nspec.b[0]: is missing; must be there"
    )


def test_each_warning_names_the_object_because_kubectl_prints_equal_ones_once() -> None:
    assert answer(warnings=PROBLEMS, name="Job team/b")["warnings"] == [
        "Job team/b: spec.a: is 1; set 2",
        "Job team/b: spec.b[0]: is missing; must be there",
    ]


def test_the_longest_name_of_a_job_leaves_a_warning_120_characters() -> None:
    job = f"Job {'n' * 63}/{'j' * 63}"
    (text,) = answer(warnings=[Problem((), "x" * 117, "r")], name=job)["warnings"]
    assert text == f"{job}: {'x' * 117}; r"
    (text,) = answer(warnings=[Problem((), "x" * 117, "r")], name=job + "j" * 190)["warnings"]
    assert text.endswith(f"j…: {'x' * 117}; r")
    assert len(text) == 256


def test_a_warning_has_no_line_breaks() -> None:
    assert warnings_of("a\nb\r\n\tc\u2028d\x85e") == ["a b c d e; r"]


def test_all_warnings_of_one_answer_have_at_most_half_of_what_a_request_may_have() -> None:
    found = warnings_of(*(f"{number} " + "é" * 1000 for number in range(100)))
    assert sum(len(text) for text in found) <= 4096 // 2
    assert [text.split()[0] for text in found[:-1]] == [str(number) for number in range(7)]


def test_the_last_warning_tells_how_many_others_there_are() -> None:
    found = warnings_of(*("x" * 100 for _ in range(100)))
    assert len(found) == 18
    assert found[-1] == "and 83 more warnings"
    assert len(warnings_of(*("x" * 100 for _ in range(17)))) == 17


def test_the_message_of_a_profile_is_the_last_line_of_a_denial_and_no_warning_besides() -> None:
    response = answer(found=FOUND, warnings=PROBLEMS, name="Job team/b", message="Ask #batch")
    assert response["status"]["message"].splitlines() == [
        "Job team/b: spec.a: is 1; set 2",
        "spec.b[0]: is missing; must be there",
        "Ask #batch",
    ]
    assert "Ask #batch" not in response["warnings"]


def test_the_message_of_a_profile_is_one_warning_equal_for_all_objects_and_there_is_none_without_others() -> None:
    assert answer(warnings=PROBLEMS, name="Job team/b", message="Ask #batch")["warnings"][2:] == ["Ask #batch"]
    assert answer(message="Ask #batch") == {"allowed": True}


def test_the_message_of_a_profile_has_room_beside_as_many_warnings_as_there_may_be() -> None:
    found = answer(warnings=[Problem((), "x" * 1000, "r")] * 100, name="Job team/b", message="m" * 200)["warnings"]
    assert found[-2:] == ["Job team/b: and 94 more warnings", "m" * 200]
    assert sum(map(len, found)) <= 2048
