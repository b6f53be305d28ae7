"""The fields of a profile that the ledger and placement read, recorded on a Job or JobSet for `explain`.

`explain` has only the permissions of its user, who may not be able to read the policy. The fields are recorded when a
workload is created, and again in its account each time that the ledger counts a pod.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from webhook.policy.model import (
    Disruptions,
    Duration,
    ExitCode,
    FailurePolicy,
    FailureRule,
    JobWide,
    Match,
    Next,
    Placement,
    Profile,
    RequestedRetry,
    Retries,
)
from webhook.policy.settings import LARGEST_COUNT

Count = Annotated[int, Meta(ge=0, le=LARGEST_COUNT)]


class AppliedRule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """What a rule of `onFailure` matches, and what it says about the cost."""

    match: Match
    cost: Literal["Retry", "Free", "Fatal"] | None = None


class Applied(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Fields of a profile; `free_restarts` is `retries.limit`, `requested_placement` is `requestedRetry.placement`.

    `job_wide` is `failurePolicy.jobWide.failed`, None without `manyPods`; `unknown_exit` is left out if it is Fail. All
    other fields are always written: another version may have other defaults.
    """

    free_restarts: Annotated[Count, Meta(description="How many free restarts a scope may have (retries.limit).")]
    disruptions: Annotated[Disruptions, Meta(description="The section `disruptions`.")]
    inject: Annotated[Literal["Merge", "IfAbsent", "Never"], Meta(description="The field failurePolicy.inject.")]
    coupled: Annotated[Literal["FailJob", "Retry", "Settle"], Meta(description="The field failurePolicy.coupled.")]
    settle_within: Annotated[Count, Meta(description="The field failurePolicy.settleWithin, in seconds.")]
    threshold: Annotated[
        int,
        Meta(ge=-LARGEST_COUNT, le=LARGEST_COUNT, description="The field placement.interruptibleFailureThreshold."),
    ]
    spot: Annotated[Literal["Require", "Prefer", "Allow"], Meta(description="The field placement.spot.")]
    requested_placement: Annotated[
        Literal["OnDemand", "Policy"], Meta(description="The field requestedRetry.placement.")
    ]
    unknown_exit: Annotated[Literal["Fail", "Confirm"], Meta(description="The field failurePolicy.unknownExit.")] = (
        "Fail"
    )
    job_wide: Annotated[
        Annotated[int, Meta(ge=2, le=1000)] | None, Meta(description="The field failurePolicy.jobWide.failed.")
    ] = None


def applied_rules(profile: Profile) -> tuple[AppliedRule, ...]:
    """Return what is recorded of the rules of `onFailure`: not in the account, which has little room."""
    return tuple(AppliedRule(match=rule.match, cost=rule.next.cost) for rule in profile.on_failure)


def failed_for_job_wide(policy: FailurePolicy) -> int | None:
    """Return how many failed indexes end a Job of which none has finished; None if they do not."""
    return None if policy.many_pods == "Job" or policy.job_wide is None else policy.job_wide.failed


def applied(profile: Profile) -> Applied:
    """Return the recorded fields of a profile."""
    return Applied(
        free_restarts=profile.retries.limit,
        disruptions=profile.disruptions,
        inject=profile.failure_policy.inject,
        coupled=profile.failure_policy.coupled,
        settle_within=int(profile.failure_policy.settle_within),
        unknown_exit=profile.failure_policy.unknown_exit,
        job_wide=failed_for_job_wide(profile.failure_policy),
        threshold=profile.placement.interruptible_failure_threshold,
        spot=profile.placement.spot,
        requested_placement=profile.requested_retry.placement,
    )


def profile_of(
    kept: Applied, retriable_exit_codes: tuple[ExitCode, ...], rules: tuple[AppliedRule, ...] = ()
) -> Profile:
    """Return a profile with the recorded fields, and defaults for the others."""
    return Profile(
        retries=Retries(limit=kept.free_restarts, default=min(Retries().default, kept.free_restarts)),
        failure_policy=FailurePolicy(
            inject=kept.inject,
            coupled=kept.coupled,
            settle_within=Duration(kept.settle_within),
            unknown_exit=kept.unknown_exit,
            many_pods="Job" if kept.job_wide is None else "Auto",
            job_wide=JobWide() if kept.job_wide is None else JobWide(failed=kept.job_wide),
            retriable_exit_codes=retriable_exit_codes,
        ),
        disruptions=kept.disruptions,
        placement=Placement(interruptible_failure_threshold=kept.threshold, spot=kept.spot),
        requested_retry=RequestedRetry(placement=kept.requested_placement),
        on_failure=tuple(FailureRule(match=rule.match, next=Next(cost=rule.cost)) for rule in rules),
    )
