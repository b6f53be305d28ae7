"""The metrics as Prometheus reads them, beside the page that defines them."""

import ast
import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

from tests.metrics import counted, sample
from tests.unit.controller.leader import FakeApi, new_ledger
from tools.generate.metrics import LABELS, REMEDIES, collectors, labels_of, short
from tools.generate.sources import tree_of
from webhook import metrics
from webhook.systems.accounts import SYSTEMS

CODE = Path(metrics.__file__).parent
COUNTS = re.compile(r"metrics\.(?:(\w+)\.labels|(requests|edits|problems|not_enforced|placements))")


def literal_values() -> Iterator[tuple[str, str, str]]:
    """Yield metric, label and value for each count whose label value is a literal in the code."""
    names = {metric: name for name, metric in collectors().items()}
    for file in CODE.rglob("*.py"):
        for call in ast.walk(tree_of(file)):
            if not isinstance(call, ast.Call) or not (found := COUNTS.fullmatch(ast.unparse(call.func))):
                continue
            metric = getattr(metrics, found[1] or found[2].upper())  # a function that holds children
            for label, value in zip(labels_of(metric), call.args, strict=True):
                if isinstance(value, ast.Constant) and value.value:
                    yield short(names[metric]), label, str(value.value)


def test_the_page_defines_every_metric_and_each_of_its_labels() -> None:
    metrics_of_page = {short(name): metric for name, metric in collectors().items()}
    assert {family.name for family in metrics.REGISTRY.collect()} == set(collectors())
    assert REMEDIES.keys() == metrics_of_page.keys()
    assert LABELS.keys() == {(name, label) for name, metric in metrics_of_page.items() for label in labels_of(metric)}


def test_the_page_defines_every_label_value_that_is_a_literal_in_the_code() -> None:
    found = set(literal_values())
    assert ("admission_requests", "result", "error") in found
    assert [one for one in found if f"`{one[2]}`" not in LABELS[one[:2]]] == []


def test_a_cached_child_counts_in_its_metric() -> None:
    before = counted("retry_policy_placements_total", placement="Spot")
    metrics.placements("Spot").inc()
    metrics.placements("Spot").inc()
    assert counted("retry_policy_placements_total", placement="Spot") == before + 2


def test_the_duration_of_admissions_is_reported_before_the_first_admission() -> None:
    for path in ("mutate", "validate", "retry"):
        assert sample("retry_policy_admission_duration_seconds_count", {"path": path}) is not None


def test_counters_of_rare_events_are_reported_before_the_first_event() -> None:
    # Prometheus sees no increase of a series that begins with 1.
    async def work() -> None:
        new_ledger(FakeApi())

    asyncio.run(work())
    for name, labels in {
        "placements": {"placement": "None"},
        "ledger_attempts": {"cause": "DeadlineExceeded", "cost": "free"},
        "ledger_disruptions": {"reason": "DeletionByDeviceTaintManager"},
        "ledger_workloads_stopped": {"action": "Failed", "reason": "JobWideFailure"},
    }.items():
        assert sample(f"retry_policy_{name}_total", labels) is not None


def test_no_two_lists_of_workloads_have_the_same_name_in_metrics() -> None:
    names = [kind.list_name for kind in SYSTEMS]
    assert len(names) == len({*names})


def test_the_page_names_log_lines_that_the_code_writes() -> None:
    named = {line for remedy in REMEDIES.values() for line in re.findall(r"log line `(.+?)`", remedy)}
    code = "".join(file.read_text() for file in CODE.rglob("*.py"))
    assert len(named) > 5
    assert [line for line in named if f'"{line}"' not in code] == []
