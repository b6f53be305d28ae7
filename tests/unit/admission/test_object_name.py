"""The name of an object in messages: the one that its author knows."""

from typing import Any

import pytest

from tests.admission import review_of
from tests.objects import job, pod
from webhook.admission import review
from webhook.admission.object_name import ObjectName, object_name
from webhook.objects.problem import Json

JOB_OF_SET = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "set", "uid": "u", "controller": True}


def named(root: Any, **request: Any) -> ObjectName:
    body = review_of(root, namespace="team", **request)
    return object_name(review.decode(body), body)


def with_metadata(root: Json, **metadata: Any) -> Json:
    return {**root, "metadata": metadata}


def test_an_object_is_named_by_kind_namespace_and_name() -> None:
    assert str(named(with_metadata(job(), name="train"), name="train")) == "Job team/train"
    assert str(named(with_metadata(job(), name="train"))) == "Job team/train"


def test_a_cluster_scoped_object_is_named_without_a_namespace() -> None:
    body = review_of(with_metadata({"apiVersion": "v1", "kind": "Namespace"}, name="team"), namespace="")
    assert str(object_name(review.decode(body), body)) == "Namespace team"


def test_a_namespace_is_named_without_the_namespace_field_of_the_request() -> None:
    body = review_of(with_metadata({"apiVersion": "v1", "kind": "Namespace"}, name="team"), namespace="team")
    assert str(object_name(review.decode(body), body)) == "Namespace team"


def test_an_object_with_generate_name_is_named_by_that_prefix() -> None:
    before = with_metadata(job(), generateName="train-")
    assert str(named(before)) == "Job team/train-*"
    completed = with_metadata(job(), generateName="train-", name="train-x7k2p")  # as /validate gets it
    assert str(named(completed, name="train-x7k2p")) == "Job team/train-*"


def test_a_stored_object_with_generate_name_is_named_by_its_full_name() -> None:
    stored = with_metadata(job(), generateName="train-", name="train-x7k2p")
    assert str(named(stored, old=stored, name="train-x7k2p")) == "Job team/train-x7k2p"


def test_a_name_that_is_written_beside_generate_name_is_used() -> None:
    assert named(with_metadata(job(), generateName="train-", name="mine"), name="mine").name == "mine"


def test_a_pod_is_named_by_its_controller() -> None:
    root = pod()
    root["metadata"]["generateName"] = "train-"
    found = named(root)
    assert str(found) == "Pod of Job team/train"
    assert found.fields == {"kind": "Pod", "namespace": "team", "name": "train-*", "controller": "Job/train"}


def test_a_pod_without_a_controller_is_named_by_its_own_name() -> None:
    assert str(named(with_metadata(pod(owner=None), name="alone"))) == "Pod team/alone"


def test_objects_other_than_pods_are_named_by_their_own_name() -> None:
    assert str(named(with_metadata(job(), name="set-0", ownerReferences=[JOB_OF_SET]))) == "Job team/set-0"


@pytest.mark.parametrize(
    ("metadata", "shown"),
    [
        ({"name": "a\nWarning: b"}, "Job team/'a\\nWarning: b'"),
        ({"name": "\x1b[31m"}, "Job team/'\\x1b[31m'"),
        ({"name": "é"}, "Job team/'\\xe9'"),
        ({"generateName": "a\nb"}, "Job team/'a\\nb*'"),
        ({"name": 5}, "Job team/"),
        (None, "Job team/"),
    ],
)
def test_special_characters_in_an_invalid_name_are_escaped(metadata: Any, shown: str) -> None:
    assert str(named({**job(), "metadata": metadata})) == shown


@pytest.mark.parametrize("references", [5, [5], [{"controller": "yes"}], [JOB_OF_SET] * 10_000])
def test_a_pod_with_malformed_or_too_many_owner_references_is_named_by_its_own_name(references: Any) -> None:
    assert str(named(with_metadata(pod(), name="a", ownerReferences=references))) == "Pod team/a"


def test_a_name_that_is_too_long_is_cut() -> None:
    assert len(str(named(with_metadata(job(), name="x" * 100_000)))) < 100
    owner = {**JOB_OF_SET, "kind": "K" * 100_000}
    assert len(str(named(with_metadata(pod(), name="a", ownerReferences=[owner])))) < 100
