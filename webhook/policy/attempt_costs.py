"""What the end of an attempt costs: one row for each cost, with all that depends on it. Pure.

What a rule of onFailure says about the cost is in webhook/policy/costs.py.
"""

from typing import Final, Literal, NamedTuple, get_args

from webhook.policy.causes import need_rows

AttemptCost = Literal["retry", "disruption", "free", "none", "fatal"]


class AttemptCostRow(NamedTuple):
    """What depends on a cost.

    Attributes:
        noun: what several of them are called in a sum, such as `2 retries`; empty if the end cost nothing.
        told: what one attempt cost, in words. shown: the same, in the page of a report.
        looks: how it is shown on a terminal; empty: as other text.
        is_failure: whether `status.failed` of a Job counts the pod.
        verdict_may_replace: whether the leader may find afterwards that the end was fatal.
    """

    noun: str
    told: str
    shown: str
    looks: Literal["bad", "odd", ""] = ""
    is_failure: bool = False
    verdict_may_replace: bool = False


ATTEMPT_COSTS: Final[dict[AttemptCost, AttemptCostRow]] = {
    "retry": AttemptCostRow("retry", "cost 1 retry", "one retry", "odd", is_failure=True, verdict_may_replace=True),
    "disruption": AttemptCostRow("disruption", "cost 1 disruption", "one disruption", "odd", verdict_may_replace=True),
    "free": AttemptCostRow("free restart", "cost 1 free restart", "nothing (free restart)"),
    "fatal": AttemptCostRow("fatal end", "no retry was left", "the workload failed", "bad", is_failure=True),
    "none": AttemptCostRow("", "cost nothing", "nothing"),
}
need_rows(ATTEMPT_COSTS, get_args(AttemptCost))
FAILURES: Final = tuple(cost for cost, row in ATTEMPT_COSTS.items() if row.is_failure)
