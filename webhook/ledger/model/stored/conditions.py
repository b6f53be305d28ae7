"""The conditions of an Account, for `kubectl wait`. Pure."""

from typing import Final

from webhook.ledger.model.account import Account, Condition, ConditionType

# For each condition the reason if it is true, if it is not, and a sentence about it.
TOLD: Final[dict[ConditionType, tuple[str, str, str]]] = {
    "Failed": ("FatalEnd", "NoFatalEnd", "the end of an attempt was fatal: no retry followed it"),
    "RetriesExhausted": ("NoneLeft", "SomeLeft", "the scope of the last attempt has no retry left"),
    "Suspended": ("DisruptionLimitExceeded", "NotSuspended", "disruptions exceeded their limit; resume it to go on"),
}


def updated(found: Account, now: str) -> list[Condition]:
    """Return the conditions of an account; one that has not changed keeps its time, others have changed `now`."""
    states: dict[ConditionType, bool] = {
        "Failed": found.spent_now("fatal") > 0,
        "RetriesExhausted": found.left is not None and found.left.retries == 0,
        "Suspended": found.suspended,
    }
    before = {one.type: one for one in found.conditions}
    conditions = []
    for kind, (reason, otherwise, sentence) in TOLD.items():
        is_true = states[kind]
        known = before.get(kind)
        same = known is not None and (known.status == "True") == is_true
        conditions.append(
            Condition(
                type=kind,
                status="True" if is_true else "False",
                last_transition_time=known.last_transition_time if known is not None and same else now,
                reason=reason if is_true else otherwise,
                message=sentence if is_true else "",
            )
        )
    return conditions
