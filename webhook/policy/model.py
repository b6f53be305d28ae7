"""The policy as typed values: each field with its default and its bounds, and nothing that a policy file cannot say."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from webhook.problem import Json

Retries10 = Annotated[int, Meta(ge=0, le=10)]
Count = Annotated[int, Meta(ge=0)]
ExitCode = Annotated[int, Meta(ge=1, le=2147483647)]


class Duration(int):
    """Whole seconds, at least one; written as seconds, or as `90s`, `1h30m`, `24h`."""


class Retries(Struct, frozen=True, kw_only=True, rename="camel"):
    """How often a workload may be tried again."""

    limit: Retries10 = 10
    on_exceed: Literal["Deny", "Clamp"] = "Deny"
    default: Retries10 = 3


class FailurePolicy(Struct, frozen=True, kw_only=True, rename="camel"):
    """What is injected into a Job's podFailurePolicy."""

    inject: Literal["Merge", "IfAbsent", "Never"] = "Merge"
    retriable_exit_codes: tuple[ExitCode, ...] = (143,)
    coupled: Literal["FailJob", "Retry"] = "FailJob"
    on_failure_restart_policy: Literal["Keep", "Never"] = "Keep"


class Disruptions(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a preemption, eviction or lost node costs."""

    action: Literal["Ignore", "Count"] = "Ignore"
    limit: Count = 20
    on_exceed: Literal["OnDemand", "Suspend", "Fail"] = "OnDemand"


class JobSet(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a disruption does to a JobSet."""

    on_disruption: Literal["RestartJobSet", "RestartPod"] = "RestartJobSet"


class CustomProvider(Struct, frozen=True, kw_only=True, rename="camel"):
    """Spot nodes as this cluster labels and taints them."""

    spot_labels: dict[str, list[str]]
    tolerations: list[Json] = []


class Placement(Struct, frozen=True, kw_only=True, rename="camel"):
    """Where an attempt runs."""

    provider: Literal[
        "auto", "any", "gke", "eks", "karpenter", "aks", "ocean", "openshift", "ack", "castai", "custom"
    ] = "auto"
    custom: CustomProvider | None = None
    interruptible_failure_threshold: int = -1
    spot: Literal["Require", "Prefer", "Allow"] = "Prefer"


class Profile(Struct, frozen=True, kw_only=True, rename="camel"):
    """One named part of the policy; a section left out has its defaults."""

    retries: Retries = Retries()
    failure_policy: FailurePolicy = FailurePolicy()
    disruptions: Disruptions = Disruptions()
    job_set: JobSet = JobSet()
    placement: Placement = Placement()
    attempt_timeout: Duration | None = None
    allow_skip: bool = True


class Policy(Struct, frozen=True, kw_only=True, rename="camel"):
    """The whole policy: profiles by name."""

    api_version: Literal["retry-policy.dev/v1alpha1"]
    kind: Literal["RetryPolicy"]
    profiles: dict[str, Profile]
