"""The table of features in docs/reference/workloads.md: each kind has a feature in the code, or a reason why not."""

import pytest

from tools.generate.features import COLUMNS, REASONS, YES, cell, listed_kinds
from webhook.systems.job import spec as batch
from webhook.systems.job_set.spec import JOB_SET
from webhook.systems.kind_spec import KindSpec
from webhook.systems.kinds import full_name


@pytest.mark.parametrize("kind", [*listed_kinds()], ids=lambda row: full_name(row, "", ""))
def test_a_reason_is_given_for_exactly_the_features_that_the_code_lacks(kind: KindSpec) -> None:
    lacking = {column for column, has in COLUMNS.items() if not has(kind)}
    reasons = set(REASONS.get(kind, {}))
    assert reasons - lacking == set(), f"the code has this now: delete these reasons of {kind.kind} in REASONS"
    assert lacking - reasons == set(), f"the code lacks this: add reasons of {kind.kind} to REASONS"


def test_reasons_are_given_for_kinds_of_the_table_alone() -> None:
    assert set(REASONS) <= set(listed_kinds())


@pytest.mark.parametrize(("kind", "lacks"), [(batch.JOB, []), (JOB_SET, ["Renewed retries"])])
def test_a_job_has_every_feature_and_a_job_set_all_but_what_its_api_forbids(kind: KindSpec, lacks: list[str]) -> None:
    assert [column for column in COLUMNS if cell(kind, column) != YES] == lacks


def test_a_reason_stands_in_one_cell_of_a_table() -> None:
    texts = [text for reasons in REASONS.values() for text in reasons.values()]
    assert [text for text in texts if "|" in text or "\n" in text or text.endswith(".")] == []
