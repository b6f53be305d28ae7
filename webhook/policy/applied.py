"""The fields of a profile that the ledger and placement read, recorded on a Job or JobSet for `explain`.

`explain` has only the permissions of its user, who may not be able to read the policy. The fields are recorded when a
workload is created, and again in its account each time that the ledger counts a pod.
"""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from webhook.policy.model import (
    Deadlines,
    DisruptionLimit,
    Disruptions,
    Duration,
    ExitCode,
    Factor,
    FailurePolicy,
    FailureRule,
    Hardware,
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


NO_DEADLINES: Final = Deadlines()  # those of the packaged policy


class AppliedRule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """What a rule of `onFailure` matches, and what it says about the cost."""

    match: Match
    cost: Literal["Retry", "Free", "Fatal"] | None = None


class AppliedDeadlines(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The section `deadline` of a profile."""

    factor: Annotated[Factor | None, Meta(description="Its field factor.")] = None
    limit: Annotated[Factor, Meta(description="Its field limit.")]
    start: Annotated[Count, Meta(description="Its field start, in seconds.")]


class AppliedRenewal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """When retries count no more."""

    per: Annotated[Count | None, Meta(description="The field retries.per, in seconds.")] = None
    on_progress: Annotated[bool, Meta(description="The field retries.renewOnProgress.")] = False


class Applied(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Fields of a profile; `free_restarts` is `retries.limit`, `requested_placement` is `requestedRetry.placement`.

    `job_wide` is `failurePolicy.jobWide.failed`, None without `manyPods`; `unknown_exit` is left out if it is Fail,
    `actions` if it is Act, `hardware` and `disruptions_per` if they are null, `renewal` if retries count for life,
    `deadline` if it is the default. All other fields are always written: another
    version may have other defaults.
    """

    free_restarts: Annotated[Count, Meta(description="How many free restarts a scope may have (retries.limit).")]
    disruptions: Annotated[DisruptionLimit, Meta(description="The section `disruptions`, without `per`.")]
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
    hardware: Annotated[bool, Meta(description="Whether the field failurePolicy.hardware is set.")] = False
    disruptions_per: Annotated[
        Count | None, Meta(description="The field disruptions.per, in seconds; absent if they count for life.")
    ] = None
    deadline: Annotated[
        AppliedDeadlines | None, Meta(description="The section `deadline`, if it is not the default.")
    ] = None
    job_wide: Annotated[
        Annotated[int, Meta(ge=2, le=1000)] | None, Meta(description="The field failurePolicy.jobWide.failed.")
    ] = None
    renewal: Annotated[AppliedRenewal | None, Meta(description="When retries count no more, if they may.")] = None
    actions: Annotated[Literal["Act", "Report"], Meta(description="The field actions.")] = "Act"


def applied_rules(profile: Profile) -> tuple[AppliedRule, ...]:
    """Return what is recorded of the rules of `onFailure`: not in the account, which has little room."""
    rules = profile.on_failure
    return tuple(AppliedRule(match=rule.match, cost=rule.next.cost) for rule in rules) if rules else ()


def failed_for_job_wide(policy: FailurePolicy) -> int | None:
    """Return how many failed indexes end a Job of which none has finished; None if they do not."""
    return None if policy.many_pods == "Job" or policy.job_wide is None else policy.job_wide.failed


def applied(profile: Profile) -> Applied:
    """Return the recorded fields of a profile."""
    limit, failure, deadline = profile.disruptions, profile.failure_policy, profile.deadline
    retries = profile.retries
    return Applied(
        free_restarts=retries.limit,
        disruptions=DisruptionLimit(action=limit.action, limit=limit.limit, on_exceed=limit.on_exceed),
        disruptions_per=None if limit.per is None else int(limit.per),
        deadline=None
        if deadline == NO_DEADLINES
        else AppliedDeadlines(factor=deadline.factor, limit=deadline.limit, start=int(deadline.start)),
        inject=failure.inject,
        coupled=failure.coupled,
        settle_within=int(failure.settle_within),
        unknown_exit=failure.unknown_exit,
        hardware=failure.hardware is not None,
        job_wide=failed_for_job_wide(failure),
        threshold=profile.placement.interruptible_failure_threshold,
        spot=profile.placement.spot,
        requested_placement=profile.requested_retry.placement,
        renewal=None
        if retries.per is None and not retries.renew_on_progress
        else AppliedRenewal(per=retries.per and int(retries.per), on_progress=retries.renew_on_progress),
        actions=profile.actions,
    )


def _deadlines_of(kept: AppliedDeadlines | None) -> Deadlines:
    if kept is None:
        return Deadlines()
    return Deadlines(factor=kept.factor, limit=kept.limit, start=Duration(kept.start))


def profile_of(
    kept: Applied, retriable_exit_codes: tuple[ExitCode, ...], rules: tuple[AppliedRule, ...] = ()
) -> Profile:
    """Return a profile with the recorded fields, and defaults for the others."""
    renewal = kept.renewal or AppliedRenewal()
    return Profile(
        retries=Retries(
            limit=kept.free_restarts,
            default=min(Retries().default, kept.free_restarts),
            per=None if renewal.per is None else Duration(renewal.per),
            renew_on_progress=renewal.on_progress,
        ),
        actions=kept.actions,
        failure_policy=FailurePolicy(
            inject=kept.inject,
            coupled=kept.coupled,
            settle_within=Duration(kept.settle_within),
            unknown_exit=kept.unknown_exit,
            hardware=Hardware() if kept.hardware else None,
            many_pods="Job" if kept.job_wide is None else "Auto",
            job_wide=JobWide() if kept.job_wide is None else JobWide(failed=kept.job_wide),
            retriable_exit_codes=retriable_exit_codes,
        ),
        disruptions=Disruptions(
            action=kept.disruptions.action,
            limit=kept.disruptions.limit,
            on_exceed=kept.disruptions.on_exceed,
            per=None if kept.disruptions_per is None else Duration(kept.disruptions_per),
        ),
        deadline=_deadlines_of(kept.deadline),
        placement=Placement(interruptible_failure_threshold=kept.threshold, spot=kept.spot),
        requested_retry=RequestedRetry(placement=kept.requested_placement),
        on_failure=tuple(FailureRule(match=rule.match, next=Next(cost=rule.cost)) for rule in rules),
    )
