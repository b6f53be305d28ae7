"""The metrics about what the ledger counts."""

from itertools import product

from webhook import metrics
from webhook.accounts import kueue
from webhook.accounts.counting import EVICTED_TOO_OFTEN, FREE_TOO_OFTEN, LIMIT_EXCEEDED, CountingPass
from webhook.pods import outcomes
from webhook.pods.matching import POD_FAILURE_POLICY
from webhook.policy.attempt_costs import ATTEMPT_COSTS
from webhook.policy.causes import CAUSES


def report_zeros() -> None:
    """Report counters of the ledger as 0: Prometheus sees no increase of a series that begins with 1."""
    for cause, cost in product(CAUSES, ATTEMPT_COSTS):
        metrics.LEDGER_ATTEMPTS.labels(cause, cost)
    for reason in (*outcomes.DISRUPTIONS, "Other"):
        metrics.LEDGER_DISRUPTIONS.labels(reason)
    for reason in (*kueue.REASONS, kueue.OTHER):
        metrics.LEDGER_EVICTIONS.labels(reason)
    metrics.LEDGER_STOPPED.labels("Suspended", LIMIT_EXCEEDED)
    metrics.LEDGER_STOPPED.labels("Deactivated", EVICTED_TOO_OFTEN)
    for reason in (LIMIT_EXCEEDED, FREE_TOO_OFTEN, EVICTED_TOO_OFTEN, POD_FAILURE_POLICY, outcomes.NEVER_STARTED):
        metrics.LEDGER_STOPPED.labels("Failed", reason)


def add(counting: CountingPass) -> None:
    """Add the attempts that a pass has counted to the metrics."""
    for detail in counting.details:
        metrics.LEDGER_ATTEMPTS.labels(detail.cause, detail.cost).inc()
        if detail.restart:
            continue
        if detail.cause == "Disruption":
            reason = detail.reason if detail.reason in outcomes.DISRUPTIONS else "Other"
            metrics.LEDGER_DISRUPTIONS.labels(reason).inc()
        if detail.placement == "Spot":
            metrics.LEDGER_SPOT_LOST.inc()
        stopped = detail.reason == outcomes.STOPPED or detail.cause == outcomes.EVICTED
        if counting.settings.on_failure and not stopped:
            metrics.LEDGER_DECISIONS.labels(counting.settings.profile_name, str(detail.on_failure)).inc()
    for reason, number in counting.evictions.items():
        metrics.LEDGER_EVICTIONS.labels(reason if reason in kueue.REASONS else kueue.OTHER).inc(number)
    metrics.LEDGER_SAVED.inc(counting.saved)
