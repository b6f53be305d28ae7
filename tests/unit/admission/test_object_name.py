"""How an object is named to people: as they know it."""

from typing import Any

import pytest

from tests.admission import review_of
from tests.objects import job, pod
from webhook.admission import review
from webhook.admission.object_name import ObjectName, name_of
from webhook.objects.problem import Json

JOB_OF_SET = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "set", "uid": "u", "controller": True}


def named(root: Any, **request: Any) -> ObjectName:
    body = review_of(root, namespace="team", **request)
    return name_of(review.decode(body), body)


def with_metadata(root: Json, **metadata: Any) -> Json:
    return {**root, "metadata": metadata}


def test_an_object_is_named_by_kind_namespace_and_name() -> None:
    assert str(named(with_metadata(job(), name="train"), name="train")) == "Job team/train"
    assert str(named(with_metadata(job(), name="train"))) == "Job team/train"


def test_an_object_of_the_whole_cluster_has_no_namespace() -> None:
    body = review_of(with_metadata({"apiVersion": "v1", "kind": "Namespace"}, name="team"), namespace="")
    assert str(name_of(review.decode(body), body)) == "Namespace team"


def test_a_namespace_is_named_by_itself_though_a_request_to_update_it_has_its_name_as_namespace() -> None:
    body = review_of(with_metadata({"apiVersion": "v1", "kind": "Namespace"}, name="team"), namespace="team")
    assert str(name_of(review.decode(body), body)) == "Namespace team"


def test_an_object_whose_name_the_api_server_completes_is_named_by_what_its_author_wrote() -> None:
    before = with_metadata(job(), generateName="train-")
    assert str(named(before)) == "Job team/train-*"
    completed = with_metadata(job(), generateName="train-", name="train-x7k2p")  # as /validate gets it
    assert str(named(completed, name="train-x7k2p")) == "Job team/train-*"


def test_an_object_that_is_stored_has_the_name_that_it_got() -> None:
    stored = with_metadata(job(), generateName="train-", name="train-x7k2p")
    assert str(named(stored, old=stored, name="train-x7k2p")) == "Job team/train-x7k2p"


def test_a_name_that_its_author_wrote_beside_a_generate_name_is_used() -> None:
    assert named(with_metadata(job(), generateName="train-", name="mine"), name="mine").name == "mine"


def test_a_pod_is_named_by_the_controller_that_made_it() -> None:
    root = pod()
    root["metadata"]["generateName"] = "train-"
    found = named(root)
    assert str(found) == "Pod of Job team/train"
    assert found.fields == {"kind": "Pod", "namespace": "team", "name": "train-*", "controller": "Job/train"}


def test_a_pod_of_nobody_is_named_by_itself() -> None:
    assert str(named(with_metadata(pod(owner=None), name="alone"))) == "Pod team/alone"


def test_another_object_is_named_by_itself_whoever_made_it() -> None:
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
def test_what_cannot_be_a_name_is_shown_so_that_it_does_no_harm(metadata: Any, shown: str) -> None:
    assert str(named({**job(), "metadata": metadata})) == shown


@pytest.mark.parametrize("references", [5, [5], [{"controller": "yes"}], [JOB_OF_SET] * 10_000])
def test_a_pod_whose_controllers_cannot_be_read_or_are_too_many_is_named_by_itself(references: Any) -> None:
    assert str(named(with_metadata(pod(), name="a", ownerReferences=references))) == "Pod team/a"


def test_what_cannot_be_a_name_is_cut() -> None:
    assert len(str(named(with_metadata(job(), name="x" * 100_000)))) < 100
    owner = {**JOB_OF_SET, "kind": "K" * 100_000}
    assert len(str(named(with_metadata(pod(), name="a", ownerReferences=[owner])))) < 100
