"""The containers of a pod."""

from typing import Any

import pytest

from webhook.rules.pods import containers


def test_containers_and_init_containers_are_found_with_their_paths() -> None:
    spec = {"containers": [{"name": "a"}, {"name": "b"}], "initContainers": [{"name": "c"}]}
    assert list(containers.of({"spec": spec})) == [
        (("spec", "containers", 0), {"name": "a"}),
        (("spec", "containers", 1), {"name": "b"}),
        (("spec", "initContainers", 0), {"name": "c"}),
    ]


@pytest.mark.parametrize("pod", [{}, {"spec": None}, {"spec": {"containers": None}}, {"spec": {"containers": "ab"}}])
def test_a_pod_without_a_list_of_containers_has_none(pod: Any) -> None:
    assert list(containers.of(pod)) == []
