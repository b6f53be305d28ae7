"""Draws histories of Jobs and JobSets: a policy, the shape of one, and how its pods end, one after the other."""

from typing import Any, Final

from hypothesis import strategies as st

from tests import job_sets
from tests.objects import exit_codes, job, job_spec
from webhook.accounts.forecast import Forecast
from webhook.explain.next_failure import NextFailure
from webhook.kube import names
from webhook.objects.problem import Json
from webhook.pods.pods import INDEX
from webhook.policy.model import (
    BackOff,
    Disruptions,
    FailurePolicy,
    FailureRule,
    Match,
    Next,
    Placement,
    Profile,
    Retries,
)

DISRUPTION: Final = 0  # the ending that is not an exit code
ENDINGS: Final = (*(DISRUPTION,) * 6, 143, 143, 143, 75, 42, 1)
AUTHORS_RULES: Final[tuple[list[Json] | None, ...]] = (
    None,
    None,
    [exit_codes("Ignore", "In", 75, container="main")],
    [exit_codes("Count", "In", 1, container="main")],
    [exit_codes("FailJob", "In", 42, container="main")],
)
SHAPES: Final[tuple[Json, ...]] = (
    {"completions": 1, "parallelism": 1},
    {"completions": 3, "parallelism": 3},
    {"completions": 1, "parallelism": 1, "completionMode": "Indexed"},
    {"completions": 3, "parallelism": 3, "completionMode": "Indexed"},
    {"completions": 3, "parallelism": 3, "completionMode": "Indexed", "backoffLimitPerIndex": 1},
    {"completions": 3, "parallelism": 3, "completionMode": "Indexed", "backoffLimitPerIndex": 2, "maxFailedIndexes": 1},
)

# Rules of onFailure of which each is carried out by the Job controller, or by the ledger where it settles crashes.
FAILURE_RULES: Final = (
    FailureRule(match=Match(exit_codes=(75,)), next=Next(cost="Free")),
    FailureRule(match=Match(exit_codes=(42, 75)), next=Next(cost="Fatal")),
    FailureRule(match=Match(exit_codes=(1, 42), containers=("main",)), next=Next(avoid="Node")),
    FailureRule(match=Match(exit_codes=(143,), cause="ExitCode"), next=Next(cost="Fatal")),
    FailureRule(match=Match(cause="Disruption"), next=Next(cost="Retry")),
    FailureRule(match=Match(cause="Disruption"), next=Next(cost="Free")),
    FailureRule(match=Match(cause="Disruption"), next=Next(cost="Fatal")),
)
failure_rules = st.lists(st.sampled_from(FAILURE_RULES), max_size=4, unique=True).map(tuple)

profiles = st.builds(
    Profile,
    retries=st.builds(Retries, limit=st.integers(1, 4), default=st.just(1), on_exceed=st.just("Clamp")),
    failure_policy=st.builds(FailurePolicy, coupled=st.sampled_from(["FailJob", "Retry", "Settle", "Settle"])),
    disruptions=st.builds(
        Disruptions,
        action=st.sampled_from(["Ignore", "Ignore", "Ignore", "Count"]),
        limit=st.integers(0, 3),
        on_exceed=st.sampled_from(["OnDemand", "Suspend", "Fail"]),
    ),
    back_off=st.builds(BackOff, per_index=st.booleans(), disruptions=st.sampled_from(["Constant", "Exponential"])),
    placement=st.builds(
        Placement,
        provider=st.just("gke"),
        interruptible_failure_threshold=st.integers(-3, 3),
        spot=st.sampled_from(["Require", "Prefer"]),
    ),
    on_failure=st.just(()) | failure_rules,
)


@st.composite
def manifests(draw: Any) -> Json:
    """Draw a Job as its author writes it."""
    shape, rules = draw(st.sampled_from(SHAPES)), draw(st.sampled_from(AUTHORS_RULES))
    said = draw(
        st.fixed_dictionaries(
            {},
            optional={
                names.MAX_DISRUPTIONS: st.sampled_from(["0", "1", "2"]),
                names.INTERRUPTIBLE: st.sampled_from(["true", "false"]),
            },
        )
    )
    limits = {} if "backoffLimitPerIndex" in shape else {"backoffLimit": draw(st.integers(0, 4))}
    return job(job_spec(rules=rules and [dict(one) for one in rules], **shape, **limits), annotations=said)


@st.composite
def manifests_of_sets(draw: Any) -> Json:
    """Draw a JobSet as its author writes it."""
    root = draw(job_sets.job_sets((0, 0, 1, 6), ("Never",)))
    said = draw(st.fixed_dictionaries({}, optional={names.MAX_DISRUPTIONS: st.sampled_from(["0", "1", "2"])}))
    root["metadata"]["annotations"] = said
    for one in root["spec"]["replicatedJobs"]:
        if draw(st.integers(0, 5)) == 5:
            del one["template"]["spec"]["backoffLimit"]
            one["template"]["spec"] |= {
                "backoffLimitPerIndex": 1,
                **draw(st.sampled_from([{}, {"maxFailedIndexes": 1}])),
            }
    return dict(root)


# Each step: which of the running pods ends, and its ending.
steps = st.lists(st.tuples(st.integers(0, 5), st.sampled_from(ENDINGS)), min_size=1, max_size=8)


def foretold(
    found: list[NextFailure], job: Json, pod: Json, ending: int, name: str = "", *, profile: Profile | None = None
) -> Forecast:
    """Return the forecast for a pod with this ending: the one for its Job, its index and the rules that it matches.

    `name`: the name of its Job without that of the JobSet. `profile`: that with the rules of onFailure, if it has any.
    """
    rules = (job["spec"].get("podFailurePolicy") or {}).get("rules") or ()
    rule = next((number for number, one in enumerate(rules) if matches(one, ending)), None)
    of_job = [one for one in found if not one.job or any(names_job(part, name) for part in one.job.split(" and "))]
    of_index = [one for one in of_job if not one.indexes or index_of(pod) in expanded(one.indexes)]
    by = (
        next((number for number, one in enumerate(profile.on_failure) if decides(one, ending)), None)
        if profile
        else None
    )
    alike = [one for one in of_index if (one.forecast.rule, one.forecast.on_failure) == (rule, by)]
    if len(alike) > 1 and by is None:  # a crash that the ledger decides, and any other
        crash = [one for one in alike if ending not in {DISRUPTION, 137, 143} and is_about(one.ending, ending)]
        alike = crash or [one for one in alike if one.ending == "anything else"]
    if by is not None:  # a rule of onFailure about several exit codes, which the rules of a JobSet tell apart
        alike = ([one for one in alike if is_about(one.ending, ending)] or alike)[:1]
    (one,) = alike
    return one.forecast


def is_about(said: str, code: int) -> bool:
    """Return True if the words of explain for an ending are about an exit code, if they name any."""
    codes = said.removeprefix("exit code ").partition(" of ")[0].split(", ")
    return said != "anything else" and (not said.startswith("exit code ") or str(code) in codes)


def decides(rule: FailureRule, ending: int) -> bool:
    """Return True if a rule of FAILURE_RULES matches a pod with this ending."""
    if ending == DISRUPTION:
        return rule.match.cause == "Disruption"
    return ending in rule.match.exit_codes


def names_job(part: str, name: str) -> bool:
    """Return True if `workers`, or `workers-0,2-3`, names a Job of a JobSet, as `workers-2`."""
    replicated_job, _, indexes = part.partition("-")
    of, _, index = name.rpartition("-")
    return replicated_job == of and (not indexes or index in expanded(indexes))


def matches(rule: Json, ending: int) -> bool:
    """Return True if a rule of a failure policy matches a pod with this ending; a disrupted pod exits with 137."""
    codes = rule.get("onExitCodes")
    if codes is None:
        return ending == DISRUPTION
    return bool(((ending or 137) in codes["values"]) == (codes["operator"] == "In"))


def index_of(pod: Json) -> str:
    """Return the completion index of a pod, empty if it has none."""
    return str(pod["metadata"]["annotations"].get(INDEX, ""))


def expanded(indexes: str) -> set[str]:
    """Return the indexes in `0-2,5`."""
    runs = (part.split("-") for part in indexes.split(","))
    return {str(number) for run in runs for number in range(int(run[0]), int(run[-1]) + 1)}
