"""The account in a sentence, for Events and people."""

from webhook.ledger.model.account import Account, Attempt, Left
from webhook.ledger.model.outcomes import Cost


def sentence(detail: Attempt, left: Left, of: int | None) -> str:
    """Say how an attempt ended, what that cost, and what is left.

    `of`: how many attempts there may be in all; None in a JobSet.
    """
    in_set = of is None
    where = f"{detail.scope.rstrip('/')}: " if in_set else f"index {detail.scope}: " if detail.scope else ""
    ended = f"{where}attempt {detail.attempt + 1}{'' if in_set else f' of {of}'} ended: {how(detail)}"
    return "; ".join((ended, cost(detail, in_set=in_set), rest(left, in_set=in_set)))


def how(detail: Attempt) -> str:
    """Say how an attempt ended."""
    if detail.cause == "ExitCode":
        container, _, code = detail.reason.rpartition(" ")
        return f"container {container} exit code {code}"
    if detail.cause == "OOMKilled":
        return f"container {detail.reason} OOMKilled"
    if detail.cause == "Disruption":
        return f"disruption {detail.reason}"
    return detail.reason or detail.cause


def cost(detail: Attempt, *, in_set: bool) -> str:
    """Say what an attempt cost."""
    by_rule = detail.action == "FailJob"
    if detail.cost == "retry":
        return "cost 1 restart" if in_set and by_rule else "cost 1 retry of its Job" if in_set else "cost 1 retry"
    if detail.cost == "fatal":
        over = "JobSet" if in_set else "index" if detail.action == "FailIndex" else "Job"
        if detail.action in {"FailJob", "FailIndex"}:
            return f"rule {detail.rule} ({detail.action}) ends the {over}"
        return f"no retry was left, which ends the {over}"
    return {"disruption": "cost 1 disruption", "free": "cost 1 free restart"}.get(detail.cost, "cost nothing")


def rest(left: Left, *, in_set: bool) -> str:
    """Say what is left."""
    kinds = (("restart" if in_set else "retry", left.retries), ("disruption", left.disruptions))
    return "left: " + ", ".join(counted(number, name) for name, number in kinds if number is not None)


def counted(number: int, name: str) -> str:
    """Put a number before a noun."""
    if number == 1:
        return f"1 {name}"
    return f"{number} {name[:-1]}ies" if name.endswith("y") else f"{number} {name}s"


def summary(account: Account) -> str:
    """Say what all attempts cost together."""
    nouns: dict[Cost, str] = {
        "retry": "retry",
        "disruption": "disruption",
        "free": "free restart",
        "fatal": "fatal end",
    }
    found = [counted(account.spent(cost), noun) for cost, noun in nouns.items() if account.spent(cost)]
    if account.spent("none"):
        found.append(f"{account.spent('none')} at no cost")
    return f"{counted(account.ended, 'attempt')} ended" + (": " + ", ".join(found) if found else "")
