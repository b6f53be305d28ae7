"""The Helm chart agrees with the program; tests/chart runs Helm itself."""

import json
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec import inspect

from tests.documents import document_of
from tools.generate import chart, values_schema
from webhook import __version__
from webhook.policy.model import Policy

ROOT: Final = Path(__file__).parents[2]
CHART: Final = ROOT / chart.CHART


def test_the_chart_has_the_products_version() -> None:
    metadata = document_of((CHART / "Chart.yaml").read_text())
    assert (metadata["version"], metadata["appVersion"]) == (__version__, __version__)


def test_every_value_has_a_comment_and_a_schema_that_refuses_unknown_ones() -> None:
    text = (CHART / "values.yaml").read_text()
    schema = json.loads((CHART / "values.schema.json").read_text())
    explained = {path for path, _ in chart.meanings(text)}
    for path in leaves(document_of(text), schema):
        assert path in explained, path


def leaves(values: Any, schema: dict[str, Any], path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Return the paths of the values that the chart's authors name; fail where the schema takes unknown ones."""
    if "properties" not in schema or path in {("resources",), ("affinity",)}:
        return [path]
    assert schema["additionalProperties"] is False
    assert values.keys() == schema["properties"].keys() - {"global"}
    return [leaf for name in values for leaf in leaves(values[name], schema["properties"][name], (*path, name))]


def test_the_schema_of_the_policy_knows_every_field() -> None:
    profile = values_schema.schema_of(inspect.type_info(Policy))["properties"]["profiles"]["additionalProperties"]
    assert profile["properties"]["retries"]["properties"]["limit"] == {"type": "integer", "minimum": 0, "maximum": 10}
    assert profile["properties"]["disruptions"]["properties"]["onExceed"] == {"enum": ["Fail", "OnDemand", "Suspend"]}
    assert profile["additionalProperties"] is False


def test_a_manifest_that_an_edit_no_longer_fits_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"base/service\.yaml: 'targetPort: h2' is there 0 times; it must be 1"):
        chart.template("base/service.yaml", edits=(chart.Edit("targetPort: h2", ""),))
