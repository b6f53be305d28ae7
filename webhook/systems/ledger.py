"""The disruptions that the ledger has counted: a level of their own, if they cost no retry (as in Flyte's split mode).

The API counts disruptions only for Jobs with backoffLimitPerIndex, and there admission subtracts those of the ledger.
`Evidence.disruptions` is the number for the pod's completion index, or else for the whole Job, divided by the number of
pods that run at a time.
"""

from typing import Final

from webhook.systems.level import Evidence, Level

NAME: Final = "Ledger"


def levels(evidence: Evidence) -> list[Level]:
    """Return the level of disruptions."""
    if evidence.disruptions is None:
        return []
    return [Level(NAME, evidence.disruptions, evidence.settings.disruption_budget, of_disruptions=True)]
