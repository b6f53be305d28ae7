"""Whether a workload may run twice."""

import pytest

from webhook.kube import names
from webhook.retry.consent import may_run_twice

YES, NO = {names.RETRYABLE: "true"}, {names.RETRYABLE: "false"}


@pytest.mark.parametrize(
    ("said", "may"),
    [
        pytest.param([], False, id="nothing is there"),
        pytest.param([None, {}], False, id="nobody says anything"),
        pytest.param([YES, None], True, id="the object says so"),
        pytest.param([None, YES], True, id="a template says so"),
        pytest.param([YES, NO], False, id="a template knows better"),
        pytest.param([NO, YES], True, id="a template knows better, the other way"),
        pytest.param([YES, {names.RETRYABLE: "True"}], False, id="a word that is not the word"),
    ],
)
def test_the_innermost_annotation_decides(said: list[dict[str, str] | None], may: bool) -> None:  # noqa: FBT001
    assert may_run_twice(said) is may
