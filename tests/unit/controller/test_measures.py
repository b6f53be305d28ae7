"""The metrics about what the ledger counts."""

from tests.metrics import sample
from webhook import metrics
from webhook.controller import ledger


def test_what_has_not_happened_yet_is_reported_as_zero() -> None:
    for metric in (
        metrics.LEDGER_ATTEMPTS,
        metrics.LEDGER_DISRUPTIONS,
        metrics.LEDGER_EVICTIONS,
        metrics.LEDGER_STOPPED,
    ):
        metric.clear()
    ledger.report_zeros()
    for name, labels in (
        ("ledger_attempts", {"cause": "DeadlineExceeded", "cost": "none"}),
        ("ledger_disruptions", {"reason": "Other"}),
        ("ledger_workloads_stopped", {"action": "Failed", "reason": "NeverStarted"}),
        ("ledger_workloads_stopped", {"action": "Deactivated", "reason": "EvictionLimitExceeded"}),
        ("ledger_evictions", {"reason": "Preempted"}),
    ):
        assert sample(f"retry_policy_{name}_total", labels) == 0
