"""How much memory a container may have beside the others: what the API server and the nodes would refuse is a bound."""

from typing import Any

import pytest

from webhook.capacity import Pool
from webhook.objects.problem import Json
from webhook.rules.pods.memory_bounds import Restrictions, beside, bounds, is_about, largest_node, left_of, room_of

GI = 1024**3


def container(name: str, limit: str | None, request: str | None = None, **fields: Any) -> Json:
    amounts = {"limits": limit, "requests": request or limit}
    return {"name": name, "resources": {field: {"memory": size} for field, size in amounts.items() if size}, **fields}


def sidecar(name: str, limit: str) -> Json:
    return container(name, limit, restartPolicy="Always")


def limit_range(kind: str, size: str) -> Json:
    return {"metadata": {"name": "small"}, "spec": {"limits": [{"type": kind, "max": {"memory": size, "cpu": "1"}}]}}


def quota(used: str | None = None, scopes: list[str] | None = None, **hard: Any) -> Json:
    amounts = {key.replace("_", "."): size for key, size in hard.items()}
    status = {"hard": amounts, "used": dict.fromkeys(amounts, used)} if used else {}
    return {"metadata": {"name": "team"}, "spec": {"hard": amounts, "scopes": scopes or []}, "status": status}


def bounds_of(pod_spec: Json, *limit_ranges: Json, quotas: tuple[Json, ...] = ()) -> list[tuple[float, str]]:
    """Return the bounds on the first container of a pod."""
    room = room_of(pod_spec, pod_spec, (), Restrictions(limit_ranges, quotas))
    found = bounds(pod_spec, pod_spec["containers"][0], room)
    return [(float(one.ratio), one.text) for one in found]


def spec_of(*containers: Json, init: tuple[Json, ...] = (), **fields: Any) -> Json:
    return {"containers": list(containers), "initContainers": list(init), **fields}


MAIN, SIDE = container("main", "1Gi"), container("side", "2Gi")
LOAD, PROXY, CHECK = container("load", "4Gi"), sidecar("proxy", "3Gi"), container("check", "5Gi")
POD = spec_of(MAIN, SIDE, init=(LOAD, PROXY, CHECK))


@pytest.mark.parametrize(
    ("one", "gigabytes"),
    [(MAIN, 2 + 3), (SIDE, 1 + 3), (LOAD, 0), (PROXY, 5), (CHECK, 3)],
    ids=["regular", "another", "init before the sidecar", "sidecar", "init after the sidecar"],
)
def test_containers_that_run_at_the_same_time_share_the_memory_of_the_pod(one: Json, gigabytes: int) -> None:
    assert beside(POD, "limits", one) == gigabytes * GI


def test_the_overhead_of_a_runtime_class_is_beside_each_container() -> None:
    assert beside({**POD, "overhead": {"memory": "1Gi"}}, "limits", LOAD) == GI


def test_a_limit_range_bounds_each_container() -> None:
    assert bounds_of(spec_of(MAIN, SIDE), limit_range("Container", "3Gi")) == [(3, "LimitRange small")]


def test_a_limit_range_bounds_limits_and_requests_of_a_whole_pod() -> None:
    found = bounds_of(spec_of(container("main", "2Gi", "1Gi"), SIDE), limit_range("Pod", "6Gi"))
    assert found == [(2, "LimitRange small"), (4, "LimitRange small")]


def test_of_several_bounds_the_least_counts() -> None:
    three, two, four = (limit_range("Container", size) for size in ("3Gi", "2Gi", "4Gi"))
    found = bounds_of(spec_of(MAIN), three, two, four)
    assert found == [(2, "LimitRange small")]


def test_a_limit_range_for_volumes_bounds_no_container() -> None:
    assert bounds_of(spec_of(MAIN), limit_range("PersistentVolumeClaim", "3Gi")) == []


@pytest.mark.parametrize("key", ["memory", "requests_memory", "limits_memory"])
def test_a_quota_bounds_a_pod_by_what_it_has_left(key: str) -> None:
    assert bounds_of(spec_of(MAIN, SIDE), quotas=(quota("5Gi", None, **{key: "10Gi"}),)) == [(3, "ResourceQuota team")]


def test_a_new_quota_has_all_of_its_memory_left() -> None:
    assert left_of(quota(memory="10Gi"), "memory") == 10 * GI


def test_a_quota_that_is_used_up_has_nothing_left() -> None:
    assert left_of(quota("4Gi", memory="4Gi"), "memory") == 0
    assert left_of(quota("0", memory="0"), "memory") == 0


def test_a_quota_for_something_else_bounds_no_memory() -> None:
    assert bounds_of(spec_of(MAIN), quotas=(quota("1", pods="3"),)) == []


@pytest.mark.parametrize(
    ("scope", "pod_spec", "counts"),
    [
        ("Terminating", {"activeDeadlineSeconds": 60}, True),
        ("Terminating", {}, False),
        ("NotTerminating", {"activeDeadlineSeconds": 60}, False),
        ("NotTerminating", {}, True),
        ("BestEffort", {}, False),
        ("NotBestEffort", {}, True),
        ("CrossNamespacePodAffinity", {}, True),
    ],
)
def test_a_quota_with_a_scope_bounds_only_pods_in_it(scope: str, pod_spec: Json, counts: bool) -> None:  # noqa: FBT001
    assert is_about(quota(scopes=[scope], memory="1Gi"), pod_spec) is counts


@pytest.mark.parametrize(
    ("operator", "values", "counts"),
    [
        ("In", ["high"], True),
        ("In", ["low"], False),
        ("NotIn", ["high"], False),
        ("NotIn", ["low"], True),
        ("Exists", [], True),
        ("DoesNotExist", [], False),
    ],
)
def test_a_quota_for_priority_classes_bounds_only_pods_of_these(
    operator: str,
    values: list[str],
    counts: bool,  # noqa: FBT001
) -> None:
    one = quota(memory="1Gi")
    expression = {"scopeName": "PriorityClass", "operator": operator, "values": values}
    one["spec"]["scopeSelector"] = {"matchExpressions": [expression]}
    assert is_about(one, {"priorityClassName": "high"}) is counts


def affinity(*values: str) -> Json:
    terms = [{"matchExpressions": [{"key": "size", "operator": "In", "values": list(values)}]}]
    required = {"nodeSelectorTerms": terms}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


@pytest.mark.parametrize(
    ("pod_spec", "gigabytes"),
    [({}, 98), (affinity("small"), 9), (affinity("small", "large"), 98), (affinity("not there yet"), 98)],
)
def test_the_largest_node_is_one_on_which_the_pod_may_run(pod_spec: Json, gigabytes: int) -> None:
    pools = (Pool({"size": {"small"}}, 10 * GI), Pool({"size": {"large"}}, 100 * GI))
    assert largest_node(pod_spec, pools) == gigabytes * GI


def test_nodes_whose_memory_was_not_read_bound_nothing() -> None:
    assert largest_node({}, (Pool({}),)) is None


def test_a_pod_with_very_many_requirements_is_bound_by_the_largest_of_all_nodes() -> None:
    pools = (Pool({"size": {"small"}}, 10 * GI), Pool({"size": {"large"}}, 100 * GI))
    assert largest_node(affinity("small", *("x",) * 300), pools) == 98 * GI
