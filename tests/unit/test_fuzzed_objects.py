"""The draws of tests/fuzz, without a cluster: what reads an object of a user ends as it says, whatever is in it.

`python -m tests.fuzz.mutations SEED` prints the object of a failure.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.admission import policy
from tests.cluster import command_line
from tests.fuzz.mutations import Drawn, body, drawn
from webhook.accounts import cached
from webhook.admission import engine, review
from webhook.admission.subject import read, subject_of
from webhook.objects.shape import Shape, type_of
from webhook.pods import on_failure, pods
from webhook.policy.model import Policy
from webhook.rules.facts import Facts
from webhook.systems.job_set.spec import JOB_SET

OBJECTS = 1_000
MANIFESTS = 60
FACTS = [Facts(profile_name="default", mode=mode) for mode in (None, "Warn", "Audit")]
# What `read` says that it raises of a body; the server answers 400, or 422 for a number that JSON does not bound.
UNREADABLE = (review.BadReviewError, review.UnreadableError)
GROUPS = 20
BY_THE_API_SERVER = {
    "name": "a",
    "namespace": "ml",
    "uid": "u",
    "resourceVersion": "1",
    "creationTimestamp": "2026-11-24T00:00:00Z",
}


def whole(one: Drawn) -> Any:
    return {**one.root, "status": one.status} if isinstance(one.status, dict) else one.root


def request_of(one: Drawn) -> bytes:
    """Return the AdmissionReview with the object as the API server would send it, had it accepted the object."""
    group, _, version = str(one.sample.root["apiVersion"]).rpartition("/")
    kind = {"group": group, "version": version, "kind": one.sample.root["kind"]}
    request = {"uid": "u", "kind": kind, "operation": "CREATE", "namespace": "ml", "object": whole(one)}
    return body({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})


def admitted(one: Drawn, rules: Callable[[Any, Policy, Facts], review.Response]) -> None:
    received = request_of(one)
    try:
        request = read(received)
        subjects = [subject_of(read(received), body=received) for _ in FACTS]
    except UNREADABLE:
        return
    for subject, facts in zip(subjects, FACTS, strict=True):
        response = review.Response() if subject is None else rules(subject, policy(), facts)
        assert json.loads(review.encode(request.uid, response))["response"]["uid"] == "u"


def as_cached(one: Drawn, shape: Shape) -> Any:
    """Return an object as an informer decodes it; None if it is set aside, because it does not have that shape."""
    metadata = one.root.get("metadata")
    root = {**one.root, "status": one.status}
    root["metadata"] = {**(metadata if isinstance(metadata, dict) else {}), **BY_THE_API_SERVER}
    try:
        return msgspec.json.decode(body(root), type=type_of(shape))
    except (msgspec.DecodeError, RecursionError):
        return None


def kept(one: Drawn) -> None:
    """Read an object as the caches do, and what a pod asks of the next one."""
    if one.sample.root["kind"] == "Pod" and (root := as_cached(one, pods.READ)):
        pod = pods.unpack(pods.pack(pods.read(root)))
        on_failure.state_after([pod, pod], None, None, ())
        assert pod.name == "a"
    if one.sample.root["kind"] == "Job" and (root := as_cached(one, cached.JOB_READ)):
        cached.trimmed_job(root)
    if one.sample.root["kind"] == JOB_SET.kind and (root := as_cached(one, cached.JOB_SET_READ)):
        cached.trimmed_job_set(root)


READERS: dict[str, Callable[[Drawn], None]] = {
    "mutate": lambda one: admitted(one, engine.mutate),
    "validate": lambda one: admitted(one, engine.validate),
    "caches": kept,
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("group", range(GROUPS))
def test_a_mutated_object_raises_nothing_that_its_reader_does_not_name(reader: str, group: int) -> None:
    for seed in range(group, OBJECTS, GROUPS):
        one = drawn(seed)
        try:
            READERS[reader](one)
        except Exception as error:
            error.add_note(f"{one}")
            raise


@pytest.mark.parametrize(
    "command",
    [
        *(("check", "-o", form) for form in ("text", "json", "sarif", "junit", "github")),
        *(("render", "-o", form) for form in ("yaml", "json", "diff")),
    ],
    ids=" ".join,
)
def test_a_mutated_manifest_ends_no_command_with_a_traceback(tmp_path: Path, command: tuple[str, ...]) -> None:
    for seed in range(MANIFESTS):
        one, file = drawn(seed), tmp_path / f"{seed}.json"
        file.write_bytes(body(one.root))
        try:
            assert command_line.run(*command, "-f", str(file)).exit_code in {0, 1, 2}
        except Exception as error:
            error.add_note(f"{one}")
            raise
