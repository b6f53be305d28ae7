"""The account in a sentence, for Events and people."""

from webhook.ledger.model.account import Account, Attempt, Left
from webhook.ledger.model.outcomes import Cost


def sentence(detail: Attempt, max_retries: int | None) -> str:
    """Say how an attempt ended, what that cost, and what is left; without `max_retries` as in a JobSet.

    It names the pod, so that no two attempts are told in the same words: of two equal Events the API keeps one.
    """
    in_set = max_retries is None
    where = f"{detail.scope.rstrip('/')}: " if in_set else f"index {detail.scope}: " if detail.scope else ""
    attempt = f"attempt {detail.attempt}" + ("" if in_set else f" (max-retries {max_retries})")
    parts = [f"{where}pod {detail.pod}, {attempt}, ended: {how(detail)}", cost(detail, in_set=in_set)]
    if detail.left is not None:
        parts.append(rest(detail.left, in_set=in_set))
    return "; ".join(parts)


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


def verdict(within: int, kind: str) -> str:
    """Say when a crash is a bug; `within`: the seconds by which a disruption may be apart that explains it."""
    if not within:
        return f"it is a bug, which ends the {kind}, unless somebody deleted the pod"
    return (
        f"it is a bug, which ends the {kind}, if no other pod of it is disrupted within {within} s before or after it"
    )


def rest(left: Left, *, in_set: bool) -> str:
    """Say what is left."""
    retries = counted(left.retries, "restart" if in_set else "retry")
    return f"left: {retries}, {counted(left.disruptions, 'disruption')}"


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
