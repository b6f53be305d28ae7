"""Sends objects through the rules as the API server does, without a server: AdmissionReviews are encoded both ways."""

import base64
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import jsonpatch
import msgspec

from webhook.admission import engine, review
from webhook.admission.modes import ENFORCED
from webhook.admission.subject import Subject, read, subject_of
from webhook.kube import names
from webhook.objects.patch import Editor
from webhook.objects.problem import Json, Path
from webhook.objects.shape import type_of
from webhook.policy.model import Policy, Profile
from webhook.rules.facts import Facts
from webhook.systems import core

OPTED_IN = Facts(profile_name="default")


@dataclass(frozen=True, slots=True)
class Answer:
    """The response as the API server decodes it, and the object with its patch.

    `edited`: the rule of each operation of the patch.
    """

    allowed: bool
    message: str
    warnings: list[str]
    patch: list[Json]
    object: Any
    edited: tuple[str, ...] = ()


def policy(**profiles: Profile) -> Policy:
    return Policy(
        api_version="retry-policy.dev/v1alpha1", kind="RetryPolicy", profiles={"default": Profile(), **profiles}
    )


def review_of(root: Any, *, old: Any = None, operation: str | None = None, **request: Any) -> bytes:
    group, _, version = ((isinstance(root, dict) and root.get("apiVersion")) or "batch/v1").rpartition("/")
    kind = root.get("kind") if isinstance(root, dict) else "Job"
    return msgspec.json.encode(
        {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": "0c5a-uid",
                "kind": {"group": group, "version": version, "kind": kind},
                "operation": operation or ("CREATE" if old is None else "UPDATE"),
                "namespace": "ml",
                "object": root,
                "oldObject": old,
                **request,
            },
        }
    )


def seen(subject: Subject, root: Any) -> Any:
    """Return the part of an object that the rules were given."""
    if subject.kind is not core.POD or not isinstance(subject.root, dict) or "kind" in subject.root:
        return root
    try:
        return msgspec.json.decode(msgspec.json.encode(root), type=type_of(core.POD.shape))
    except msgspec.ValidationError:
        return root


def answer_of(body: bytes, root: Any) -> Answer:
    response = msgspec.json.decode(body)["response"]
    assert response["uid"] == "0c5a-uid"
    patch = msgspec.json.decode(base64.b64decode(response.get("patch", ""))) if "patch" in response else []
    return Answer(
        response["allowed"],
        response.get("status", {}).get("message", ""),
        response.get("warnings", []),
        patch,
        jsonpatch.apply_patch(deepcopy(root), patch) if patch else root,
    )


def ask(rules: Any, root: Any, facts: Facts = OPTED_IN, under: Policy | None = None, **request: Any) -> Answer:
    """Send one object through the rules; check that a library's JSON Patch gives the object that the rules edited."""
    body = review_of(root, **request)
    decoded = read(body)
    subject = subject_of(decoded, body=body)
    response = review.Response() if subject is None else rules(subject, under or policy(), facts)
    answer = replace(answer_of(review.encode(decoded.uid, response), root), edited=tuple(response.edited))
    if subject is not None and subject.root and facts.mode in ENFORCED:  # the rules get no fields of an empty object
        assert seen(subject, answer.object) == subject.root
    return answer


def mutate(root: Any, facts: Facts = OPTED_IN, under: Policy | None = None, **request: Any) -> Answer:
    return ask(engine.mutate, root, facts, under, **request)


def validate(root: Any, facts: Facts = OPTED_IN, under: Policy | None = None, **request: Any) -> Answer:
    return ask(engine.validate, root, facts, under, **request)


def lacking(root: Any, *paths: Path) -> Any:
    """Return an object whose author wrote all that the rules would write, except the fields at these paths.

    What a rule does to a field can so be compared with nothing but that field, whatever other rules there are.
    """
    editor = Editor({**deepcopy(mutate(root).object), "metadata": deepcopy(root["metadata"])})
    for path in paths:
        editor.remove(path)
    return editor.root


def of_ours(annotations: Json) -> Json:
    """Return the annotations with our prefix: rules may write others beside them."""
    return {key: value for key, value in annotations.items() if key.startswith(names.PREFIX)}
