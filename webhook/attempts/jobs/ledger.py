"""The disruptions that the ledger has counted: a level of their own, where they cost no retry (Flyte's split mode).

The API counts them nowhere, but for Jobs with backoffLimitPerIndex, where admission sets its count back. The shell
says how many there were of the pod's completion index, else of the whole Job, divided by the pods that run at a time.
"""

from typing import Final

from webhook.attempts.level import Evidence, Level

NAME: Final = "Ledger"


def levels(evidence: Evidence) -> list[Level]:
    """Return the level of disruptions."""
    if evidence.disruptions is None:
        return []
    return [Level(NAME, evidence.disruptions, evidence.settings.disruption_budget, of_disruptions=True)]
