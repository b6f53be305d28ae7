"""The metrics as Prometheus reads them, beside the page that lists them."""

import re
from pathlib import Path

from prometheus_client import generate_latest

from tests.metrics import counted
from webhook import metrics

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "metrics.md").read_text()


def test_the_page_lists_every_metric() -> None:
    text = generate_latest(metrics.REGISTRY).decode()
    reported = re.findall(r"^# TYPE (\w+)", text, re.MULTILINE)
    assert {name.removesuffix("_total") for name in reported} == set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE))


def test_a_held_child_counts_in_its_metric() -> None:
    before = counted("retry_policy_placements_total", placement="Spot")
    metrics.placements("Spot").inc()
    metrics.placements("Spot").inc()
    assert counted("retry_policy_placements_total", placement="Spot") == before + 2


def test_the_time_of_admissions_is_reported_before_the_first_one() -> None:
    for path in ("mutate", "validate", "retry"):
        assert (
            metrics.REGISTRY.get_sample_value("retry_policy_admission_duration_seconds_count", {"path": path})
            is not None
        )
