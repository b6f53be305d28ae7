"""Label selectors and rules of webhooks match as in the API server."""

import pytest

from webhook.doctor.checks.selectors import matches, matches_namespace, sees
from webhook.objects.problem import Json

LABELS = {"team": "ml", "tier": ""}


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (None, True),
        ({}, True),
        ({"matchLabels": {"team": "ml"}}, True),
        ({"matchLabels": {"team": "web"}}, False),
        ({"matchExpressions": [{"key": "team", "operator": "In", "values": ["ml"]}]}, True),
        ({"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["ml"]}]}, False),
        ({"matchExpressions": [{"key": "other", "operator": "NotIn", "values": ["ml"]}]}, True),
        ({"matchExpressions": [{"key": "tier", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}, False),
        ({"matchExpressions": [{"key": "tier", "operator": "Unheard"}]}, False),
    ],
)
def test_a_selector_matches_labels(selector: Json | None, *, expected: bool) -> None:
    assert matches(selector, LABELS) is expected


def test_the_name_of_a_namespace_is_a_label() -> None:
    hook = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ml"}}}
    assert matches_namespace(hook, {"metadata": {"name": "ml"}})
    assert not matches_namespace(hook, {"metadata": {"name": "web"}})


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ({"apiGroups": ["batch"], "resources": ["jobs"], "operations": ["CREATE"]}, True),
        ({"apiGroups": ["*"], "resources": ["*"], "operations": ["*"]}, True),
        ({"apiGroups": ["batch"], "resources": ["cronjobs"], "operations": ["CREATE"]}, False),
        ({"apiGroups": ["batch"], "resources": ["jobs"], "operations": ["UPDATE"]}, False),
        ({"apiGroups": [""], "resources": ["jobs"], "operations": ["CREATE"]}, False),
    ],
)
def test_a_rule_sees_an_operation(rule: Json, *, expected: bool) -> None:
    assert sees([rule], "batch", "jobs", "CREATE") is expected
