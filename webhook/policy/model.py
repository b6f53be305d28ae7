"""The policy as typed values: the fields of a policy file, each with its type, default and bounds."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from webhook.objects import bounds
from webhook.objects.problem import Json

Retries10 = Annotated[int, Meta(ge=0, le=bounds.MOST_RETRIES)]
Count = Annotated[int, Meta(ge=0)]
ExitCode = Annotated[int, Meta(ge=1, le=2147483647)]

# A description is the remedy of a problem: the text after "must be".
ProfileName = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?\Z",
        description="the value of a Namespace label: 1 to 63 letters, digits, -, _ or ., the ends letters or digits",
    ),
]
LabelValue = Annotated[
    str,
    Meta(
        pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?\Z",
        description="a label value: up to 63 letters, digits, -, _ or ., the ends letters or digits",
    ),
]
LabelKey = Annotated[
    str,
    Meta(
        pattern=r"^((?=[^/]{1,253}/)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
        r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?\Z",
        description="a label key: where it has a prefix, a domain name in small letters and /; then 1 to 63 letters, "
        "digits, -, _ or ., the ends letters or digits",
    ),
]
Message = Annotated[
    str,
    Meta(
        pattern=r"^(?=[^\x00-\x1f\x7f-\x9f\u2028\u2029]{10,200}\Z)\S.*\S\Z",
        description='one line of 10 to 200 characters, in quotes: in YAML a comment begins at " #"',
        extra={
            "meaning": 'A line for users, 10 to 200 characters in quotes, such as `"Ask #batch, https://wiki/batch"`: '
            "the last line of a denial, and one more warning (`From your cluster admin: …`) where there are warnings. "
            "Leave it out for no line: empty and null are problems."
        },
    ),
]


class Duration(int):
    """Whole seconds, 1 to 2147483647 as in the API; in a policy a number, or text such as `90s`, `1h30m`, `24h`."""


class Retries(Struct, frozen=True, kw_only=True, rename="camel"):
    """How many retries a workload may have."""

    limit: Retries10 = 10
    total: Count = 1000
    on_exceed: Literal["Deny", "Clamp"] = "Deny"
    default: Retries10 = 3


class FailurePolicy(Struct, frozen=True, kw_only=True, rename="camel"):
    """What is injected into a Job's podFailurePolicy."""

    inject: Literal["Merge", "IfAbsent", "Never"] = "Merge"
    # A rule of a podFailurePolicy can list 255 exit codes; the webhook may add 137.
    retriable_exit_codes: Annotated[tuple[ExitCode, ...], Meta(max_length=254)] = (143,)
    coupled: Literal["FailJob", "Retry", "Settle"] = "Settle"
    settle_within: Duration = Duration(30)
    on_failure_restart_policy: Literal["Keep", "Never"] = "Keep"
    absent_restart_policy: Literal["Keep", "Never"] = "Never"


class Disruptions(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a preemption, an eviction or the loss of a node costs."""

    action: Literal["Ignore", "Count"] = "Ignore"
    limit: Count = 1
    on_exceed: Literal["OnDemand", "Suspend", "Fail"] = "OnDemand"


class BackOff(Struct, frozen=True, kw_only=True, rename="camel"):
    """How long the Job controller waits before it replaces a pod."""

    per_index: bool = True
    disruptions: Literal["Constant", "Exponential"] = "Constant"
    single_pod: Literal["Keep", "Indexed"] = "Keep"


class JobSet(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a disruption does to a JobSet."""

    on_disruption: Literal["RestartJobSet", "RestartJob", "RestartPod"] = "RestartJobSet"


class Toleration(Struct, frozen=True, kw_only=True, rename="camel"):
    """The fields of a toleration, as the API validates them.

    The policy keeps the raw object, which is added to pods unchanged.
    """

    key: LabelKey | None = None
    operator: Literal["Exists", "Equal"] = "Equal"
    value: LabelValue = ""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    toleration_seconds: int | None = None


class CustomProvider(Struct, frozen=True, kw_only=True, rename="camel"):
    """The labels and taints of spot nodes in this cluster."""

    spot_labels: Annotated[dict[LabelKey, Annotated[list[LabelValue], Meta(min_length=1)]], Meta(min_length=1)]
    tolerations: list[Annotated[Json, Meta(extra={"shape": Toleration})]] = []


class Placement(Struct, frozen=True, kw_only=True, rename="camel"):
    """Where an attempt runs."""

    provider: Literal[
        "auto", "any", "gke", "eks", "karpenter", "aks", "ocean", "openshift", "ack", "castai", "custom"
    ] = "auto"
    custom: CustomProvider | None = None
    interruptible_failure_threshold: int = -1
    spot: Literal["Require", "Prefer", "Allow"] = "Prefer"


class RequestedRetry(Struct, frozen=True, kw_only=True, rename="camel"):
    """Which workloads a person may rerun, and where the rerun is placed."""

    retryable: bool = False
    placement: Literal["OnDemand", "Policy"] = "Policy"


class Profile(Struct, frozen=True, kw_only=True, rename="camel"):
    """The settings for the namespaces that name this profile; a section that is left out has its defaults."""

    retries: Retries = Retries()
    failure_policy: FailurePolicy = FailurePolicy()
    disruptions: Disruptions = Disruptions()
    back_off: BackOff = BackOff()
    job_set: JobSet = JobSet()
    placement: Placement = Placement()
    requested_retry: RequestedRetry = RequestedRetry()
    attempt_timeout: Duration | None = None
    allow_skip: bool = True
    message: Message = ""  # empty if left out; null is a problem: YAML reads `message: #batch` as null


class Policy(Struct, frozen=True, kw_only=True, rename="camel"):
    """The whole policy: profiles by name."""

    api_version: Literal["retry-policy.dev/v1alpha1"]
    kind: Literal["RetryPolicy"]
    profiles: Annotated[dict[ProfileName, Profile], Meta(min_length=1, max_length=bounds.MOST_PROFILES)]
