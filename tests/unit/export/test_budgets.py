"""CEL for retry budgets; tests on a real API server compare them with those of the webhook."""

import pytest

from webhook.export import budgets
from webhook.export.cel import UNLIMITED, Variables
from webhook.systems.kind_spec import KindSpec, RetryField
from webhook.systems.kinds import KINDS

FIELDS = [(row, field) for row in KINDS.values() for field in row.retry_fields]


def name_of(value: object) -> str:
    return f"{value.kind}.{value.group}" if isinstance(value, KindSpec) else ".".join(value.name)  # type: ignore[attr-defined]


@pytest.mark.parametrize(("kind", "field"), FIELDS, ids=name_of)
def test_every_retry_field_has_a_type(kind: KindSpec, field: RetryField) -> None:
    assert budgets.leaf_of(kind.shape, field) in {int, str, (int, str)}


def expression(kind: tuple[str, str], index: int = 0) -> str:
    row = KINDS[kind]
    return budgets.field_budgets(Variables(row.shape, "{}"), row.retry_fields[index], row.shape)


def test_an_absent_field_that_allows_no_retry_has_no_budget_unless_max_retries_adds_it() -> None:
    assert "== null ? {p + '.retries': 0} :" in expression(("tekton.dev", "TaskRun"))
    assert "== null ? {} :" in expression(("sparkoperator.k8s.io", "SparkApplication"), 1)


def test_an_absent_field_without_a_bound_is_unlimited() -> None:
    assert f"{{p + '.runPolicy.backoffLimit': {UNLIMITED}}}" in expression(("kubeflow.org", "TFJob"))


def test_a_field_that_counts_runs_allows_one_retry_less() -> None:
    assert "int(o.?maxRetry.orValue(null)) - 1" in expression(("batch.volcano.sh", "Job"))


def test_a_template_that_inherits_a_limit_is_not_unlimited() -> None:
    inherited = "object.?spec.?templateDefaults.?retryStrategy.?limit.orValue(null) == null ?"
    assert inherited in expression(("argoproj.io", "Workflow"), 2)
