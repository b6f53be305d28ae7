"""Which workload and scope a pod is counted for, by labels and annotations that any user may write."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.objects import pod as pod_of
from webhook.accounts import scopes
from webhook.accounts.scopes import Scopes
from webhook.pods import pods
from webhook.systems.argo import spec as argo
from webhook.systems.flyte.spec import FLYTE_WORKFLOW
from webhook.systems.kind_spec import OwnerReference
from webhook.systems.pod_source import Place
from webhook.systems.pods import LONGEST_SCOPE, PLACES, READ, Elsewhere, elsewhere, place_of

WORKFLOW = OwnerReference(argo.GROUP, "v1alpha1", "Workflow", "train", "wf-uid")
AIRFLOW = {"dag_id": "etl", "run_id": "manual__2026-01-01", "task_id": "load", "try_number": "2"}


def scope_of(node: str) -> str:
    """Return the scope of a pod of a node of a Workflow."""
    place = place_of({"annotations": {"workflows.argoproj.io/node-name": node}}, WORKFLOW)
    assert place is not None
    return place.scope


def test_a_pod_of_a_workflow_is_counted_by_its_node_whatever_the_attempt() -> None:
    found = place_of({"annotations": {"workflows.argoproj.io/node-name": "train.fit(2)"}}, WORKFLOW)
    assert found == Place(argo.WORKFLOW, "train", "wf-uid", "fit")


def test_a_pod_of_airflow_is_not_counted_and_belongs_to_the_run_that_its_labels_name() -> None:
    name = "etl.manual__2026-01-01"
    run = ("DAGRun", name, name)
    assert place_of({"labels": AIRFLOW}, None) is None
    assert elsewhere({"labels": AIRFLOW}, None) == (*run, "load (pod)", "DAG/etl")
    mapped = {"labels": {**AIRFLOW, "map_index": "3", "kubernetes_executor": "True"}}
    assert elsewhere(mapped, None) == (*run, "load/3", "DAG/etl")
    assert elsewhere({"labels": {**AIRFLOW, "map_index": "-1"}}, None) == elsewhere({"labels": AIRFLOW}, None)
    assert elsewhere({"name": "a", "labels": {"dag_id": "etl", "task_id": "load"}}, None).kind == "Pod"


@pytest.mark.parametrize(
    ("name", "scope"),
    [("f1-n0-0", "n0"), ("f1-n0-2", "n0"), ("f1-n0-0-dn3-1", "n0-0-dn3"), ("a7fkzq2", "n0/*"), ("f1-n0", "n0/*")],
)
def test_a_pod_of_flyte_is_counted_by_its_name_without_the_attempt_or_else_by_its_node(name: str, scope: str) -> None:
    owner = OwnerReference("flyte.lyft.com", "v1alpha1", "flyteworkflow", "f1", "u-1")
    found = place_of({"name": name, "labels": {"node-id": "n0"}}, owner)
    assert found == Place(FLYTE_WORKFLOW, "f1", "u-1", scope)


class Every(dict[str, str]):
    """Labels or annotations that have each key."""

    def get(self, _key: str, _default: object = None) -> str:
        return "one"

    def __getitem__(self, key: str) -> str:
        return self.get(key)

    def __contains__(self, _key: object) -> bool:
        return True


@pytest.mark.parametrize("of", PLACES, ids="/".join)
def test_a_pod_has_the_same_place_by_what_is_kept_of_its_metadata(of: tuple[str, str]) -> None:
    for part, shape in READ.items():
        kept = dict.fromkeys(shape, "one")
        controller = OwnerReference(of[0], "v1", of[1], "train-abcde", "uid")
        assert PLACES[of]({part: Every(kept)}, controller) == PLACES[of]({part: kept}, controller), (
            f"name in {part.upper()} in the pods.py of the system each key that its place reads"
        )


def test_a_pod_of_a_job_and_one_without_a_controller_have_no_place() -> None:
    assert place_of({}, None) is None
    assert place_of({}, OwnerReference("batch", "v1", "Job", "train", "uid")) is None


def test_a_short_scope_stays_as_it_is_and_a_long_one_differs_from_those_that_begin_alike() -> None:
    long = [scope_of("train." + "step" * 30 + end) for end in ("a", "b")]
    assert scope_of("train.fit") == "fit"
    assert len(set(long)) == 2
    assert max(map(len, long)) <= LONGEST_SCOPE


@given(st.lists(st.text() | st.from_regex(r"[a-z]/[0-9]{1,3}(-[0-9]{1,3})?,?", fullmatch=True), max_size=5))
def test_no_name_of_a_node_is_read_as_another_scope_from_an_account(nodes: list[str]) -> None:
    counted = Scopes()
    found = [scope_of(node) for node in nodes]
    for scope in found:
        counted.add(scope)
    read = scopes.read(counted.written())
    assert [read.of(scope) for scope in found] == [found.count(scope) for scope in found]


@pytest.mark.parametrize("change", [str, str.lower, str.upper])
@pytest.mark.parametrize(("group", "kind"), [one for one in PLACES if one[0]])
def test_a_pod_has_its_place_however_a_user_writes_the_kind_of_its_controller(
    group: str, kind: str, change: Callable[[str], str]
) -> None:
    version = {"mpijob": "v2beta1"}.get(kind, "v1")
    place = place_of({}, OwnerReference(group, version, change(kind), "train-abcde", "uid"))
    assert place is not None
    assert place.kind.group == group


def test_a_pod_of_flyte_2_belongs_to_its_task() -> None:
    owner = OwnerReference("flyte.org", "v1", "TaskAction", "f1a2", "u-1")
    found = elsewhere({"labels": {"node-id": "n0"}}, owner)
    assert found == Elsewhere("TaskAction", "f1a2", "u-1", "n0")


def test_a_pod_that_nothing_made_belongs_to_itself() -> None:
    assert elsewhere({"name": "solo", "uid": "u-2"}, None) == Elsewhere("Pod", "solo", "u-2", "")


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
