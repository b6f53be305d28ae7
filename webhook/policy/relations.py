"""Checks on several fields of one object of a policy: what contradicts what, and what the API could not carry out."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from msgspec import UNSET

from webhook.policy import costs
from webhook.policy.model import (
    LONGEST_SETTLING,
    Deadlines,
    Disruptions,
    FailurePolicy,
    FailureRule,
    Match,
    Next,
    Placement,
    Prices,
    Profile,
    Retries,
    Toleration,
)

MOST_PRICE_LABELS: Final = 5  # by which all rates of the prices choose, together
MOST_FREE_CODES: Final = 100  # exit codes of a profile that cost nothing; a Job that ignores 128 of 255 is denied


class Wrong(NamedTuple):
    """What is wrong with the relation of fields, and what would be right."""

    what: str
    remedy: str


def default_within_limit(retries: Retries) -> Wrong | None:
    """Require that the default number of retries does not exceed the limit."""
    if retries.default <= retries.limit:
        return None
    return Wrong(f"is {retries.default}, above the limit", f"must be at most {retries.limit}")


def exit_codes_once(failure_policy: FailurePolicy) -> Wrong | None:
    """Require that no exit code is listed twice: the API rejects a podFailurePolicy rule with duplicates."""
    codes = Counter(code for code in failure_policy.retriable_exit_codes if isinstance(code, int))
    twice = [str(code) for code, times in codes.items() if times > 1]
    return Wrong(f"has {', '.join(twice)} more than once", "must have each code once") if twice else None


def settles_while_remembered(failure_policy: FailurePolicy) -> Wrong | None:
    """Reject a longer time than the ledger remembers what disturbed a workload: no crash would ever be decided."""
    if failure_policy.settle_within <= LONGEST_SETTLING:
        return None
    return Wrong(f"is {failure_policy.settle_within} seconds", f"must be at most {LONGEST_SETTLING}, an hour")


def hardware_by_ledger(failure_policy: FailurePolicy) -> Wrong | None:
    """Reject `hardware` where the ledger does not decide about crashes."""
    if failure_policy.hardware is None or (failure_policy.coupled, failure_policy.inject) == ("Settle", "Merge"):
        return None
    return Wrong("has no effect without coupled Settle and inject Merge", "remove it, or set these two")


def custom_with_provider(placement: Placement) -> Wrong | None:
    """Require `custom` with the provider custom, and no `custom` with any other provider."""
    if placement.provider == "custom" and placement.custom is None:
        return Wrong("is missing", "must describe the spot nodes for provider custom: spotLabels, tolerations")
    if placement.provider != "custom" and placement.custom is not None:
        return Wrong(f"has no effect with provider {placement.provider}", "remove it, or set provider to custom")
    return None


def any_cannot_require(placement: Placement) -> Wrong | None:
    """Reject spot Require with the provider any: no label is common to the spot nodes of all providers."""
    if placement.provider == "any" and placement.spot == "Require":
        return Wrong("is Require with provider any", "must be Prefer or Allow, or name the provider")
    return None


def toleration_has_key(toleration: Toleration) -> Wrong | None:
    """Require a key, unless the operator is Exists, which without a key tolerates all keys (ValidateTolerations)."""
    if toleration.key is None and toleration.operator != "Exists":
        return Wrong("is missing", "must be a label key, or the operator Exists")
    return None


def toleration_has_no_value(toleration: Toleration) -> Wrong | None:
    """Reject a value with the operator Exists, which tolerates all values (ValidateTolerations)."""
    if toleration.value and toleration.operator == "Exists":
        return Wrong("is set with operator Exists", "remove it")
    return None


def toleration_seconds_evict(toleration: Toleration) -> Wrong | None:
    """Reject tolerationSeconds unless the effect is NoExecute, the only one that evicts pods (ValidateTolerations)."""
    if toleration.toleration_seconds is not None and toleration.effect != "NoExecute":
        return Wrong("is set without effect NoExecute", "remove it, or set effect to NoExecute")
    return None


def matches_something(match: Match) -> Wrong | None:
    """Require a criterion: a rule without any would hide all rules after it."""
    return None if match != Match() else Wrong("has no criterion", "must name a cause, reasons, exitCodes, …")


def codes_of_exits(match: Match) -> Wrong | None:
    """Reject exit codes with a cause that has none."""
    if not match.exit_codes or match.cause in {None, "ExitCode"}:
        return None
    return Wrong(f"has no effect with cause {match.cause}", "remove it, or the cause")


def says_what_follows(following: Next) -> Wrong | None:
    """Require that a rule changes something."""
    return None if following != Next() else Wrong("is empty", "must say what follows: cost, memory, delay, avoid, …")


def fatal_is_the_last(following: Next) -> Wrong | None:
    """Reject what the next attempt should have if there is none."""
    if following.cost != "Fatal" or following == Next(cost="Fatal"):
        return None
    return Wrong("is Fatal, after which there is no next attempt", "remove the other fields")


def memory_of_the_killed(rule: FailureRule) -> Wrong | None:
    """Require the cause OOMKilled with memory: only a container that was killed for its memory gets more."""
    if rule.next.memory is None or rule.match.cause == "OOMKilled":
        return None
    return Wrong("has memory, which only cause OOMKilled may ask for", "add cause: OOMKilled, or remove memory")


def free_is_visible(rule: FailureRule) -> Wrong | None:
    """Require, with cost Free, what a podFailurePolicy sees: it alone can keep a failure from costing a retry."""
    match: Any = rule.match
    known = isinstance(getattr(match, "exit_codes", UNSET), tuple)
    if not known or rule.next.cost != "Free" or match == costs.OF_DISRUPTIONS:
        return None
    if match.exit_codes and not costs.is_unsure(match):
        return None
    return Wrong(
        "is Free, which the API cannot tell by this match", "name exitCodes and containers, or cause: Disruption"
    )


def disruptions_cost_the_same(rule: FailureRule) -> Wrong | None:
    """Reject cost Retry for some disruptions: the API sees no difference between them."""
    match: Any = rule.match
    if rule.next.cost != "Retry" or getattr(match, "cause", UNSET) != "Disruption" or match == costs.OF_DISRUPTIONS:
        return None
    return Wrong("is Retry for some disruptions, which the API cannot tell", "match cause: Disruption alone, or Fatal")


def free_before_unsure(profile: Profile) -> Wrong | None:
    """Require that a rule with cost Free stands before rules that may match the same exit codes."""
    before: list[FailureRule] = []
    for index, rule in enumerate(profile.on_failure):
        if not is_read(rule):
            continue
        about = rule.match.containers or (None,)
        if rule.next.cost == "Free" and any(costs.left_to_ledger(before, rule, one) for one in about):
            what = (
                f"has rule {index} with cost Free after a rule that may match its exit codes, as only the ledger sees"
            )
            return Wrong(what, f"move rule {index} up")
        before.append(rule)
    return None


def free_codes_are_few(profile: Profile) -> Wrong | None:
    """Reject more free exit codes than a Job may ignore: an author's own policy with as many would be denied."""
    codes = {
        code
        for rule in profile.on_failure
        if is_read(rule) and rule.next.cost == "Free"
        for code in rule.match.exit_codes
    }
    if len(codes) <= MOST_FREE_CODES:
        return None
    return Wrong(f"has {len(codes)} exit codes that cost nothing", f"must have at most {MOST_FREE_CODES}")


def costs_are_injected(profile: Profile) -> Wrong | None:
    """Reject a cost without failure policies, which carry it out."""
    costly = any(
        getattr(getattr(rule, "next", UNSET), "cost", None) in {"Free", "Fatal"} for rule in profile.on_failure
    )
    if getattr(profile.failure_policy, "inject", UNSET) != "Never" or not costly:
        return None
    return Wrong(
        "has costs, which have no effect with failurePolicy.inject Never", "remove them, or set inject to Merge"
    )


def label_keys_are_few(prices: Prices) -> Wrong | None:
    """Require that rates choose by few node labels: those of every node are kept, and are in every record."""
    keys = dict.fromkeys(str(key) for rate in prices.rates for key in labels_of(rate) or ())
    if len(keys) <= MOST_PRICE_LABELS:
        return None
    return Wrong(f"choose by {len(keys)} labels: {', '.join(keys)}", f"must choose by at most {MOST_PRICE_LABELS}")


def rates_are_reached(prices: Prices) -> Wrong | None:
    """Require that no rate stands after one that matches all of its nodes."""
    for index, rate in enumerate(prices.rates):
        for place, earlier in enumerate(prices.rates[:index]):
            before, labels = labels_of(earlier), labels_of(rate)
            if before is None or labels is None or earlier.match.capacity not in {None, rate.match.capacity}:
                continue
            if before.items() <= labels.items():
                what = f"has rate {index}, which matches no node: rate {place} matches all of its nodes before it"
                return Wrong(what, f"move rate {index} up, or remove it")
    return None


def labels_of(rate: Any) -> Mapping[str, str] | None:
    """Return the node labels of a rate; None if its match has a problem."""
    match = getattr(rate, "match", UNSET)
    found: Any = getattr(match, "node_labels", UNSET)
    is_whole = isinstance(found, dict) and UNSET not in [getattr(match, "capacity", UNSET), *found, *found.values()]
    return found if is_whole else None


def is_read(rule: Any) -> bool:
    """Return True if a rule has no problem in the fields that decide what it costs."""
    match, following = getattr(rule, "match", UNSET), getattr(rule, "next", UNSET)
    read = [getattr(match, name, UNSET) for name in Match.__struct_fields__]
    listed = [entry for value in read if isinstance(value, tuple) for entry in value]
    return UNSET not in [*read, *listed, getattr(following, "cost", UNSET)]


def messages_are_kept(profile: Profile) -> Wrong | None:
    """Require diagnostics.lastWords with a rule that reads messages."""
    matches: list[Any] = [getattr(rule, "match", UNSET) for rule in profile.on_failure]  # UNSET: it has a problem
    if getattr(profile.diagnostics, "last_words", True) or not any(getattr(one, "message", None) for one in matches):
        return None
    return Wrong("matches messages, which are not kept", "set diagnostics.lastWords to true")


def factor_within_limit(deadlines: Deadlines) -> Wrong | None:
    """Require that the deadline of those who name none is one that an author may name."""
    if deadlines.factor is None or deadlines.factor <= deadlines.limit:
        return None
    return Wrong(f"is {deadlines.factor:g}, above the limit", f"must be at most {deadlines.limit:g}")


def time_for_disruptions(disruptions: Disruptions) -> Wrong | None:
    """Reject a time in which disruptions count against a limit that they do not have."""
    if disruptions.action == "Ignore" or disruptions.per is None:
        return None
    return Wrong("has no effect with action Count", "remove it, or set action to Ignore")


# Checks on several fields of one object, by the object's type: the fields that a check reads, and the check. The
# problem has the path of the first field.
Relations = Mapping[type, tuple[tuple[tuple[str, ...], Callable[[Any], Wrong | None]], ...]]
RELATIONS: Final[Relations] = {
    Retries: ((("default", "limit"), default_within_limit),),
    Deadlines: ((("factor", "limit"), factor_within_limit),),
    Disruptions: ((("per", "action"), time_for_disruptions),),
    FailurePolicy: (
        (("retriable_exit_codes",), exit_codes_once),
        (("settle_within",), settles_while_remembered),
        (("hardware", "coupled", "inject"), hardware_by_ledger),
    ),
    Match: ((("cause",), matches_something), (("exit_codes", "cause"), codes_of_exits)),
    Next: ((("cost", "memory", "delay", "avoid", "placement"), says_what_follows), (("cost",), fatal_is_the_last)),
    FailureRule: (
        (("next", "match"), memory_of_the_killed),
        (("next", "match"), free_is_visible),
        (("next", "match"), disruptions_cost_the_same),
    ),
    Profile: (
        (("on_failure", "diagnostics"), messages_are_kept),
        (("on_failure",), free_before_unsure),
        (("on_failure",), free_codes_are_few),
        (("on_failure", "failure_policy"), costs_are_injected),
    ),
    Prices: ((("rates",), label_keys_are_few), (("rates",), rates_are_reached)),
    Placement: ((("custom", "provider"), custom_with_provider), (("spot", "provider"), any_cannot_require)),
    Toleration: (
        (("key", "operator"), toleration_has_key),
        (("value", "operator"), toleration_has_no_value),
        (("toleration_seconds", "effect"), toleration_seconds_evict),
    ),
}
