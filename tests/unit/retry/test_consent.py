"""Whether a workload may run twice."""

import pytest

from webhook.kube import names
from webhook.retry.requests import may_run_twice

YES, NO = {names.RETRYABLE: "true"}, {names.RETRYABLE: "false"}


@pytest.mark.parametrize(
    ("said", "may"),
    [
        pytest.param([], False, id="no objects"),
        pytest.param([None, {}], False, id="no annotations"),
        pytest.param([YES, None], True, id="annotation of the object"),
        pytest.param([None, YES], True, id="annotation of a template"),
        pytest.param([YES, NO], False, id="a template forbids what the object allows"),
        pytest.param([NO, YES], True, id="a template allows what the object does not"),
        pytest.param([YES, {names.RETRYABLE: "True"}], False, id="malformed value"),
    ],
)
def test_the_innermost_annotation_decides(said: list[dict[str, str] | None], may: bool) -> None:  # noqa: FBT001
    assert may_run_twice(said) is may
