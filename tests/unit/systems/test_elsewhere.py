"""What a pod without an account belongs to, as its record in history names it."""

from tests.objects import pod as pod_of
from webhook.pods import pods
from webhook.systems import pods as places
from webhook.systems.kind_spec import OwnerReference
from webhook.systems.pods import Elsewhere


def test_a_pod_of_flyte_2_belongs_to_its_task() -> None:
    owner = OwnerReference("flyte.org", "v1", "TaskAction", "f1a2", "u-1")
    found = places.elsewhere({"labels": {"node-id": "n0"}}, owner)
    assert found == Elsewhere("TaskAction", "f1a2", "u-1", "n0")


def test_a_pod_that_nothing_made_belongs_to_itself() -> None:
    assert places.elsewhere({"name": "solo", "uid": "u-2"}, None) == Elsewhere("Pod", "solo", "u-2", "")


def test_what_a_pod_belongs_to_is_bounded() -> None:
    found = pod_of(name="solo", namespace="ml", uid="u-3")
    owner = {
        "apiVersion": "example.test/v1",
        "kind": "K" * 10_000,
        "name": "n" * 10_000,
        "uid": "u",
        "controller": True,
    }
    found["metadata"]["ownerReferences"] = [owner]
    known = pods.read(found).elsewhere
    assert known is not None
    assert max(map(len, known)) == pods.LONGEST_NAME
