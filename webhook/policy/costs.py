"""What the rules of `onFailure` cost, and which of them the API can carry out by itself. Pure.

A rule that names exit codes, and nothing that only the ledger knows, is carried out by a rule of the Job's
podFailurePolicy. All other rules are about something that such a policy cannot see: a message, a node, a reason, or the
kernel's kill for memory, which ends with 137 like any other. The ledger decides about these after the pod has failed.

What a rule says about the cost of a disruption applies only if the rule has `cause: Disruption`: a pod that the
platform ended has an exit code too, but it did not choose it.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, Literal

from webhook.objects import bounds
from webhook.policy import criteria
from webhook.policy.causes import CAUSES
from webhook.policy.model import FailureRule, Match, Next, Profile

Cost = Literal["Retry", "Free", "Fatal"]

REMEMBERED: Final = bounds.MOST_PROFILES * bounds.MOST_FAILURE_RULES  # answers about rules, which each Job asks for
OF_DISRUPTIONS: Final = Match(cause="Disruption")


@lru_cache(bounds.MOST_PROFILES)
def confirming(retriable: tuple[int, ...]) -> tuple[FailureRule, ...]:
    """Return the rules that `unknownExit: Confirm` adds after those of a profile, for its retriable exit codes.

    A code that no rule explains is tried once more, on another node if there is one; the second one is a bug.
    """
    told = (FailureRule(match=Match(exit_codes=retriable), next=Next(cost="Retry")),) if retriable else ()
    again = FailureRule(match=Match(cause="ExitCode", failures=2), next=Next(cost="Fatal"))
    return (*told, again, FailureRule(match=Match(cause="ExitCode"), next=Next(cost="Retry", avoid="Node")))


def rules_of(profile: Profile) -> tuple[FailureRule, ...]:
    """Return the rules about ended attempts: those of the profile, and what `unknownExit: Confirm` adds."""
    policy = profile.failure_policy
    if policy.unknown_exit == "Fail" or policy.inject == "Never":
        return profile.on_failure
    return (*profile.on_failure, *confirming(policy.retriable_exit_codes))


def cost_of(rule: FailureRule) -> Cost:
    """Return what an attempt costs that was not disrupted and after which a rule decides."""
    return rule.next.cost or "Retry"


@lru_cache(REMEMBERED)
def sure_codes(match: Match) -> frozenset[int]:
    """Return the exit codes that a match names and that are enough for it, whatever else is true of the pod."""
    codes = frozenset(match.exit_codes)
    for name in criteria.named_in(match):
        of_codes = criteria.CRITERIA[name].sure_codes
        codes = of_codes(match, codes) if of_codes is not None else frozenset()
    return codes


@lru_cache(REMEMBERED)
def unsure_codes(match: Match) -> frozenset[int] | None:
    """Return the exit codes that a container may have if a match holds, but also if not; None for any code."""
    if match.cause is not None and not CAUSES[match.cause].has_codes:
        return frozenset()
    if match.cause == "OOMKilled":
        return frozenset({criteria.KILLED})
    return frozenset(match.exit_codes) - sure_codes(match) if match.exit_codes else None


def retriable_codes(rules: Iterable[FailureRule], codes: Iterable[int]) -> list[int]:
    """Return the exit codes that are worth a retry: those of `codes`, and those about which rules say so for sure."""
    decided: dict[int, bool] = {}
    for rule in rules:
        for code in () if rule.match.containers else sure_codes(rule.match):
            decided.setdefault(code, cost_of(rule) != "Fatal")
    return sorted(code for code in {*codes, *decided} if decided.get(code, True) and code)


@lru_cache(REMEMBERED)
def unsure_codes_of_bugs(match: Match) -> frozenset[int] | None:
    """Return as `unsure_codes` the codes after which a rule for bugs must not fail a Job.

    Of a kill for memory all: if a child was killed, the program ends with a code of its own.
    """
    if match.cause == "OOMKilled":
        return frozenset(match.exit_codes) or None
    return unsure_codes(match)


def is_unsure(match: Match) -> bool:
    """Return True if a podFailurePolicy cannot see, for some exit code, whether a match holds."""
    return unsure_codes(match) != frozenset()


def may_hold(match: Match, code: int, container: str | None) -> bool:
    """Return True if a podFailurePolicy cannot see whether a match holds for a container with an exit code.

    `container`: None for any container.
    """
    codes = unsure_codes(match)
    about = container is None or not match.containers or container in match.containers
    return about and (codes is None or code in codes)


def left_to_ledger(before: Iterable[FailureRule], rule: FailureRule, container: str | None) -> frozenset[int]:
    """Return those of a rule's sure codes about which an earlier rule with another cost may decide."""
    others = [one.match for one in before if cost_of(one) != cost_of(rule)]
    return frozenset(code for code in sure_codes(rule.match) if any(may_hold(one, code, container) for one in others))


def disruption_action(
    rules: Sequence[FailureRule], otherwise: Literal["Ignore", "Count"]
) -> Literal["Ignore", "Count", "FailJob"]:
    """Return what a disruption does to a Job: what the rule about all disruptions says, or else the profile.

    If an earlier rule decides about some disruptions, the ledger fails the Job after the others.
    """
    for index, rule in enumerate(rules):
        if rule.match == OF_DISRUPTIONS:
            match rule.next.cost:
                case "Free":
                    return "Ignore"
                case "Retry":
                    return "Count"
                case "Fatal" if not any(one.match.cause == "Disruption" for one in rules[:index]):
                    return "FailJob"
            break
    return otherwise


def needs_ledger(rules: Iterable[FailureRule]) -> bool:
    """Return True if the ledger has something to decide: a rule that the API cannot see, or a fatal one."""
    return any(rule.next.cost == "Fatal" or is_unsure(rule.match) for rule in rules)
