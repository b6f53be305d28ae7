"""What the API server stores of an author's retryStrategy: the cases of merging it with the default profile."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING

import pytest

from tests.argo_cases import CASES
from tests.cluster.conftest import opted_in, with_operators
from webhook.objects.patch import at
from webhook.objects.problem import Json, field

if TYPE_CHECKING:
    from tests.cluster.conftest import NewNamespace
    from tests.cluster.kubectl import Object

pytestmark = with_operators
KINDS = ("Workflow", "WorkflowTemplate")


def strategies(spec: Json) -> dict[str, Json]:
    """Return the retryStrategies of a WorkflowSpec by their paths."""
    places = [("retryStrategy",), ("templateDefaults", "retryStrategy"), ("templates", 0, "retryStrategy")]
    return {field(("spec", *path)): found for path in places if (found := at(spec, path)) is not None}


def manifest(kind: str, number: int, author: Json) -> Object:
    """Return a manifest that no controller runs."""
    spec = {**deepcopy(author), "suspend": True}
    return {"apiVersion": "argoproj.io/v1alpha1", "kind": kind, "metadata": {"name": f"case-{number}"}, "spec": spec}


@pytest.mark.parametrize("kind", KINDS)
def test_the_policy_is_merged_with_what_the_author_wrote_and_applying_it_again_changes_nothing(
    namespace: NewNamespace, kind: str
) -> None:
    team = opted_in(namespace, "limited")
    written = [manifest(kind, number, author) for number, (author, _) in enumerate(CASES.values())]
    first, second = team.apply_all(written), team.apply_all(written)
    found = {}
    for name, stored, again in zip(CASES, first, second, strict=True):
        found[name] = strategies(stored["spec"])
        assert strategies(again["spec"]) == found[name], name
        if kind == "WorkflowTemplate":  # Argo's controller, where it runs, adds empty fields to a Workflow
            assert again["metadata"]["generation"] == stored["metadata"]["generation"], name
    assert found == {name: wanted for name, (_, wanted) in CASES.items()}
