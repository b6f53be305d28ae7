"""The policy as typed values: the fields of a policy file, each with its type, default and bounds."""

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from webhook.objects import bounds
from webhook.objects.problem import Json
from webhook.policy.causes import MatchedCause

Retries10 = Annotated[int, Meta(ge=0, le=bounds.MOST_RETRIES)]
Count = Annotated[int, Meta(ge=0)]
ExitCode = Annotated[int, Meta(ge=1, le=2147483647)]

MOST_LISTED: Final = bounds.MOST_POLICY_EVENTS  # entries of a list without a narrower bound: a whole policy has no more
LONGEST_SETTLING: Final = 3600  # seconds of settleWithin, after which the ledger forgets what disturbed the pods

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


Percent = Annotated[int, Meta(ge=1, le=100)]
Factor = Annotated[float, Meta(ge=1, le=10, description="a number from 1 to 10")]
ContainerName = Annotated[
    str,
    Meta(
        pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?\Z",
        description="the name of a container: 1 to 63 small letters, digits or -, the ends letters or digits",
    ),
]
Reason = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z]([A-Za-z0-9_,:]{0,126}[A-Za-z0-9_])?\Z",
        description="a reason as the API has it, such as EvictionByEvictionAPI: 1 to 128 letters, digits or _",
    ),
]
Glob = Annotated[
    str,
    Meta(
        pattern=r"^(?=[^\x00-\x1f\x7f-\x9f]{1,128}\Z)(?:[^*]*\*){0,4}[^*]*\Z",
        description="one line of 1 to 128 characters, in which up to four * stand for any text",
    ),
]
Quantity = Annotated[
    str,
    Meta(
        pattern=r"^[1-9][0-9]{0,11}(Ki|Mi|Gi|Ti|Pi|k|M|G|T|P)?\Z",
        description='an amount of memory as the API writes it, such as "512Mi" or 64Gi',
    ),
]


Price = Annotated[float, Meta(ge=0, le=1_000_000, description="a number from 0 to 1000000")]
Currency = Annotated[
    str, Meta(pattern=r"^[A-Z]{3}\Z", description="three capital letters as in ISO 4217, such as USD or EUR")
]


class Duration(int):
    """Whole seconds, 1 to 2147483647 as in the API; in a policy a number, or text such as `90s`, `1h30m`, `24h`."""


class Retries(Struct, frozen=True, kw_only=True, rename="camel"):
    """How many retries a workload may have.

    `per`: for how long retries count, from the first one on; None for life. `renew_on_progress`: whether they count no
    more once an attempt gets further than all before it.
    """

    limit: Retries10 = 10
    total: Count = 1000
    on_exceed: Literal["Deny", "Clamp"] = "Deny"
    default: Retries10 = 3
    per: Duration | None = None
    renew_on_progress: bool = False

    @property
    def are_renewed(self) -> bool:
        """Whether retries do not always count for life."""
        return self.per is not None or self.renew_on_progress


class JobWide(Struct, frozen=True, kw_only=True, rename="camel"):
    """When a bug is one of all pods of a Job whose indexes have retries of their own."""

    failed: Annotated[int, Meta(ge=2, le=1000)] = 5


class Hardware(Struct, frozen=True, kw_only=True, rename="camel"):
    """By what the faults of a node are told, besides that it is gone or not ready, and the health of its devices.

    `conditions`: types of conditions of a Node. One that ends with Ready tells a fault if it is not True, any other one
    if it is. The defaults are those of node-problem-detector (config/ of 0.8), of AKS, of Nebius and of NVIDIA
    NVSentinel, and of Amazon's node monitoring agent. `taints`: keys of taints.
    """

    conditions: Annotated[tuple[Glob, ...], Meta(min_length=1, max_length=50)] = (
        *(
            "KernelDeadlock",
            "ReadonlyFilesystem",
            "XfsShutdown",
            "CperHardwareErrorFatal",
            "FilesystemCorruptionProblem",
        ),
        *("GPU*", "Gpu*", "*GPUError", "*XID*", "*Xid*", "NVLink*", "IBLink*", "UnhealthyNvidia*", "SysLogs*"),
        *("AcceleratedHardwareReady", "KernelReady", "StorageReady"),
    )
    taints: Annotated[tuple[Glob, ...], Meta(max_length=50)] = ("node.kubernetes.io/out-of-service",)


class FailurePolicy(Struct, frozen=True, kw_only=True, rename="camel"):
    """What is injected into a Job's podFailurePolicy."""

    inject: Literal["Merge", "IfAbsent", "Never"] = "Merge"
    # A rule of a podFailurePolicy can list 255 exit codes; the webhook may add 137.
    retriable_exit_codes: Annotated[tuple[ExitCode, ...], Meta(max_length=254)] = (143,)
    coupled: Literal["FailJob", "Retry", "Settle"] = "Settle"
    settle_within: Duration = Duration(30)
    on_failure_restart_policy: Literal["Keep", "Never"] = "Keep"
    absent_restart_policy: Literal["Keep", "Never"] = "Never"
    unknown_exit: Literal["Fail", "Confirm"] = "Fail"
    many_pods: Literal["Job", "Auto", "Index"] = "Job"
    job_wide: JobWide | None = JobWide()
    hardware: Hardware | None = None


class DisruptionLimit(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a preemption, an eviction or the loss of a node costs, and how many there may be."""

    action: Literal["Ignore", "Count"] = "Ignore"
    limit: Count = 1
    on_exceed: Literal["OnDemand", "Suspend", "Fail"] = "OnDemand"


class Disruptions(DisruptionLimit, frozen=True, kw_only=True, rename="camel"):
    """The limit, and for how long disruptions count against it: from the first one on; None for life."""

    per: Duration | None = None


class Evictions(Struct, frozen=True, kw_only=True, rename="camel"):
    """How often Kueue may evict a workload."""

    limit: Count | None = None
    on_exceed: Literal["Report", "Deactivate", "Fail"] = "Report"


class Kueue(Struct, frozen=True, kw_only=True, rename="camel"):
    """What follows for workloads in a queue of Kueue."""

    evictions: Evictions = Evictions()


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

    spot_labels: Annotated[
        dict[LabelKey, Annotated[list[LabelValue], Meta(min_length=1, max_length=MOST_LISTED)]],
        Meta(min_length=1, max_length=MOST_LISTED),
    ]
    tolerations: Annotated[list[Annotated[Json, Meta(extra={"shape": Toleration})]], Meta(max_length=MOST_LISTED)] = []


class Match(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Which ended attempts a rule is about; all fields that are given must hold."""

    cause: MatchedCause | None = None
    reasons: Annotated[tuple[Reason, ...], Meta(max_length=20)] = ()
    exit_codes: Annotated[tuple[ExitCode, ...], Meta(max_length=50)] = ()
    containers: Annotated[tuple[ContainerName, ...], Meta(max_length=20)] = ()
    same_node: Annotated[int, Meta(ge=2, le=5)] | None = None
    failures: Annotated[int, Meta(ge=2, le=5)] | None = None
    message: Glob | None = None


class MemoryGrowth(Struct, frozen=True, kw_only=True, rename="camel"):
    """How the memory of a container grows each time that it was killed for its memory."""

    factor: Factor = 2.0
    limit: Quantity


class Delay(Struct, frozen=True, kw_only=True, rename="camel"):
    """How long after the end of an attempt the next pod may be scheduled."""

    initial: Duration
    factor: Factor = 2.0
    limit: Duration = Duration(600)


class Next(Struct, frozen=True, kw_only=True, rename="camel"):
    """What the next attempt costs, and how it differs from the one that ended."""

    cost: Literal["Retry", "Free", "Fatal"] | None = None
    memory: MemoryGrowth | None = None
    delay: Delay | None = None
    avoid: Literal["Node", "Zone"] | None = None
    placement: Literal["OnDemand"] | None = None


class FailureRule(Struct, frozen=True, kw_only=True, rename="camel"):
    """What follows the end of an attempt. Of the rules of a profile, the first that matches decides."""

    match: Match
    next: Next


class Diagnostics(Struct, frozen=True, kw_only=True, rename="camel"):
    """What is kept of an attempt that ended."""

    last_words: bool = False


class Wave(Struct, frozen=True, kw_only=True, rename="camel"):
    """When a zone counts as losing its spot nodes, and for how long new attempts avoid it."""

    share: Percent = 30
    avoid_for: Duration = Duration(900)


class BadNodes(Struct, frozen=True, kw_only=True, rename="camel"):
    """When new attempts avoid a node, and for how long.

    `rejected`: after it has rejected pods so often in ten minutes. `faults`: after the ends of so many workloads in
    seven days that were a fault of its hardware.
    """

    rejected: Annotated[int, Meta(ge=2, le=10)] = 3
    faults: Annotated[int, Meta(ge=2, le=10)] = 2
    avoid_for: Duration = Duration(86_400)


class Deadlines(Struct, frozen=True, kw_only=True, rename="camel"):
    """When workloads are to be done whose authors say how long they take; factors of that and a start.

    `factor`: where the author names no deadline. `limit`: the latest that an author may name. `start`: how long a pod
    may take from its creation until its program works, on a node that must be made first.
    """

    factor: Factor | None = None
    limit: Factor = 10
    start: Duration = Duration(600)


class Placement(Struct, frozen=True, kw_only=True, rename="camel"):
    """Where an attempt runs."""

    provider: Literal[
        "auto", "any", "gke", "eks", "karpenter", "aks", "ocean", "openshift", "ack", "castai", "custom"
    ] = "auto"
    custom: CustomProvider | None = None
    interruptible_failure_threshold: int = -1
    spot: Literal["Require", "Prefer", "Allow"] = "Prefer"
    spot_wait: Duration | None = None
    protect: Literal["OnDemand", "Always", "Never"] = "OnDemand"
    roles: Literal["Alike", "LeaderOnDemand"] = "Alike"
    wave: Wave | None = None
    bad_nodes: BadNodes | None = None


class RequestedRetry(Struct, frozen=True, kw_only=True, rename="camel"):
    """Which workloads a person may rerun, and where the rerun is placed."""

    retryable: bool = False
    placement: Literal["OnDemand", "Policy"] = "Policy"


class Profile(Struct, frozen=True, kw_only=True, rename="camel"):
    """The settings for the namespaces that name this profile; a section that is left out has its defaults."""

    retries: Retries = Retries()
    failure_policy: FailurePolicy = FailurePolicy()
    disruptions: Disruptions = Disruptions()
    kueue: Kueue = Kueue()
    back_off: BackOff = BackOff()
    job_set: JobSet = JobSet()
    placement: Placement = Placement()
    deadline: Deadlines = Deadlines()
    requested_retry: RequestedRetry = RequestedRetry()
    on_failure: Annotated[tuple[FailureRule, ...], Meta(max_length=bounds.MOST_FAILURE_RULES)] = ()
    attempt_timeout: Duration | None = None
    start_timeout: Duration | None = None
    unreachable_timeout: Duration | None = Duration(60)
    stall_timeout: Duration | None = None
    environment: bool = False
    diagnostics: Diagnostics = Diagnostics()
    actions: Literal["Act", "Report"] = "Act"
    allow_skip: bool = True
    message: Message = ""  # empty if left out; null is a problem: YAML reads `message: #batch` as null


class RateLimit(Struct, frozen=True, kw_only=True, rename="camel"):
    """How many actions the leader may take in a minute; beyond that it waits. The bound is one of its memory."""

    cluster: Annotated[int, Meta(ge=1, le=10_000)] = 600
    namespace: Annotated[int, Meta(ge=1, le=10_000)] = 300


class Emergency(Struct, frozen=True, kw_only=True, rename="camel"):
    """One switch that stops what the leader does to objects, and new retries."""

    actions: Literal["Run", "Stop"] = "Run"
    retries: Literal["Run", "Stop"] = "Run"


class RateMatch(Struct, frozen=True, kw_only=True, rename="camel"):
    """Which nodes a rate is for; all fields that are given must hold."""

    capacity: Literal["Spot", "OnDemand"] | None = None
    node_labels: Annotated[dict[LabelKey, LabelValue], Meta(max_length=3)] = {}


class Rate(Struct, frozen=True, kw_only=True, rename="camel"):
    """What an hour costs: of a core (`cpu`), of a GiB (`memory`), of one of any other resource."""

    match: RateMatch = RateMatch()
    per_hour: Annotated[dict[LabelKey, Price], Meta(min_length=1, max_length=10)]


class Prices(Struct, frozen=True, kw_only=True, rename="camel"):
    """What nodes cost; the first rate that matches a node decides."""

    currency: Currency
    rates: Annotated[tuple[Rate, ...], Meta(min_length=1, max_length=100)]


class Policy(Struct, frozen=True, kw_only=True, rename="camel"):
    """The whole policy: profiles by name."""

    api_version: Literal["retry-policy.dev/v1alpha1"]
    kind: Literal["RetryPolicy"]
    profiles: Annotated[dict[ProfileName, Profile], Meta(min_length=1, max_length=bounds.MOST_PROFILES)]
    rate_limit: RateLimit = RateLimit()
    emergency: Emergency = Emergency()
    prices: Annotated[
        Prices | None,
        Meta(
            extra={
                "meaning": "`currency` and `rates`: what an hour of a core (`cpu`), of a GiB (`memory`) or of another "
                "resource costs on which nodes; the first rate that matches decides. Left out: no prices."
            }
        ),
    ] = None
