"""What a pod requests, by its spec."""

from typing import Any

import pytest

from tests.costs import assert_affordable
from webhook.history.amounts import LARGEST, MOST_CONTAINERS, SPEC_READ, requested
from webhook.history.record import MOST_RESOURCES
from webhook.objects.problem import Json
from webhook.objects.shape import fits

GIB = 2.0**30


def container(always: str | None = None, /, **requests: str) -> Json:
    found: Json = {"resources": {"requests": {name.replace("_", "/"): text for name, text in requests.items()}}}
    return found if always is None else {"restartPolicy": always, **found}


def of(*containers: Json, **fields: Any) -> dict[str, float]:
    spec = {"containers": [*containers], **fields}
    assert fits(spec, SPEC_READ)
    return dict(requested(spec))


def test_the_requests_of_all_containers_are_added_up() -> None:
    assert of(container(cpu="500m", memory="1Gi"), container(cpu="2"), {}) == {"cpu": 2.5, "memory": GIB}


def test_amounts_are_read_as_the_api_writes_them() -> None:
    assert of(container(cpu="100m", memory="1500M")) == {"cpu": 0.1, "memory": 1.5e9}
    assert of(container(cpu="1500000u", memory="1e3")) == {"cpu": 1.5, "memory": 1000.0}
    assert of(container(cpu="250000000n", memory="0.5Ki")) == {"cpu": 0.25, "memory": 512.0}


def test_an_init_container_counts_if_it_needs_more_than_all_that_run_after_it() -> None:
    assert of(container(cpu="2"), initContainers=[container(cpu="1"), container(cpu="3")]) == {"cpu": 3.0}
    assert of(container(cpu="2"), initContainers=[container(cpu="1"), container(cpu="1")]) == {"cpu": 2.0}


def test_a_sidecar_runs_beside_the_containers_and_beside_the_init_containers_after_it() -> None:
    sidecar = container("Always", cpu="1")
    assert of(container(cpu="2"), initContainers=[sidecar]) == {"cpu": 3.0}
    assert of(container(cpu="2"), initContainers=[sidecar, sidecar]) == {"cpu": 4.0}
    assert of(container(cpu="2"), initContainers=[sidecar, container(cpu="4")]) == {"cpu": 5.0}
    assert of(container(cpu="2"), initContainers=[container(cpu="4"), sidecar]) == {"cpu": 4.0}


def test_requests_of_the_whole_pod_replace_those_of_its_containers() -> None:
    of_pod = {"requests": {"cpu": "8", "memory": "2Gi", "nvidia.com/gpu": "9"}}
    found = of(container(cpu="2", nvidia_gpu="1"), resources=of_pod)
    assert found == {"cpu": 8.0, "memory": 2 * GIB, "nvidia/gpu": 1.0}


def test_the_overhead_of_a_runtime_is_added() -> None:
    assert of(container(cpu="1"), overhead={"cpu": "250m", "memory": "1Ki"}) == {"cpu": 1.25, "memory": 1024.0}


def test_the_first_four_extended_resources_by_name_are_kept() -> None:
    names = [f"example.com/{letter}" for letter in "fedcba"]
    spec = {"containers": [{"resources": {"requests": dict.fromkeys(("ephemeral-storage", *names), "1")}}]}
    assert [name for name, _ in requested(spec)] == [f"example.com/{letter}" for letter in "abcd"]


def test_pods_that_request_the_same_share_it() -> None:
    assert requested({"containers": [container(cpu="1")]}) is requested({"containers": [container(cpu="1000m")]})


@pytest.mark.parametrize("text", ["", "many", "-1", "9" * 5000, "1e999", "NaN", None])
def test_what_is_no_amount_counts_as_none(text: str | None) -> None:
    assert of(container(cpu="1"), {"resources": {"requests": {"cpu": text}}}) == {"cpu": 1.0}


def test_an_absurd_amount_is_bounded() -> None:
    assert of(container(cpu="9" * 30 + "E"), container(cpu="1e99")) == {"cpu": float(LARGEST)}


def test_a_pod_without_any_field_requests_nothing() -> None:
    assert requested({}) == requested({"containers": None, "initContainers": None, "overhead": None}) == ()


def test_thousands_of_containers_and_of_resources_cost_little() -> None:
    names = {f"example.com/{number:05}": str(number + 1) for number in range(5_000)}
    many = {"containers": [container(cpu="1")] * 5_000, "initContainers": [container(cpu="1")] * 5_000}
    assert_affordable(lambda: requested(many), lines=43_500, mebibytes=1)
    assert dict(requested(many)) == {"cpu": float(MOST_CONTAINERS)}
    wide = {"containers": [{"resources": {"requests": names}}] * 200}
    assert_affordable(lambda: requested(wide), lines=74_000, mebibytes=1)
    assert len(requested(wide)) <= MOST_RESOURCES


def test_a_name_that_no_record_could_hold_is_left_out() -> None:
    assert of(container(**{"x_" + "y" * 400: "1"})) == {}
