"""The tables of docs/reference/metrics.md: the metrics of the server, and their labels."""

from typing import Any, Final, get_args

from prometheus_client import Metric
from prometheus_client.metrics import MetricWrapperBase

from webhook import metrics
from webhook.accounts import kueue
from webhook.accounts.counting import EVICTED_TOO_OFTEN, FREE_TOO_OFTEN, JOB_WIDE, LIMIT_EXCEEDED, NO_PROGRESS
from webhook.controller.app import RETRIES_LEASE
from webhook.controller.brake import Action
from webhook.controller.ends import REASONS
from webhook.pods.matching import POD_FAILURE_POLICY
from webhook.pods.outcomes import DISRUPTIONS, NEVER_STARTED, NODE_LOST, SPOT_UNAVAILABLE, STALLED, TOO_OFTEN
from webhook.policy.causes import Cause, need_rows
from webhook.policy.model import Placement
from webhook.program.start import LEDGER_LEASE
from webhook.retry.admission import RULE
from webhook.rules import opt_in, registry
from webhook.rules.rule import Rule
from webhook.systems.kinds import KINDS
from webhook.systems.reruns import ADAPTERS

UNITS: Final = {"_timestamp_seconds": "Unix time, seconds", "_seconds": "seconds", "_bytes": "bytes"}

# What an admin does about a metric.
REMEDIES: Final[dict[str, str]] = {
    "admission_requests": (
        "`error`: a bug, report it with the log line `internal error`; `unavailable`: the log line `not answered` says "
        "what is missing; `overloaded`: add CPU or replicas; `bad`: somebody other than an API server calls the port"
    ),
    "admission_duration_seconds": "above 1 s: give the replicas more CPU, or find out why the API server is slow",
    "edits": "in Audit and Warn: it shows how much Enforce will change",
    "problems": "in Audit and Warn: it shows how much Enforce will deny",
    "requests_denied": "ask the namespaces with most of them; the log line `denied` and `kubectl` name the fields",
    "requests_not_enforced": "before you set Enforce: ask these namespaces; `retry-policy check` names the fields",
    "placements": "many `None`: the page on troubleshooting lists the reasons",
    "memory_growths": "many `ResourceQuota`: raise the quota, which the annotation `memory` of the pods names",
    "unknown_profile_requests": "rises: add the profile, or label the namespace with one that exists",
    "policy_generation": "0: the replica is not ready; the log line `not ready` says why",
    "policy_reloads": "`bad` rises: the Event `PolicyRefused` says what is wrong",
    "policy_last_reload_good": "0: correct the policy; the Event `PolicyRefused` says what is wrong",
    "policy_profiles": "none; compare `auto` with `retry_policy_capacity_provider_recognised`",
    "cache_age_seconds": "above 60: the log line `watch broken` says why",
    "api_busy": (
        "rises: see [when the API server is busy](../explanation/availability.md#when-the-api-server-is-busy); "
        "check that the FlowSchemas of the manifests are applied"
    ),
    "capacity_provider_recognised": "0, and a profile has provider `auto`: name the provider in the policy",
    "certificate_not_after_timestamp_seconds": "less than 5 days ahead: the Event `CertificateNotRenewed` says why",
    "certificate_trusted": "0: find what else writes `caBundle`",
    "certificate_renewals": "`bad` rises: the Event `CertificateNotRenewed` says why",
    "ready": "0: the log line `not ready` says why",
    "admission_requests_waiting": "stays near 128: the API server answers slowly",
    "admission_held_bytes": "stays high: add a replica",
    "connections": "rises without end: find out what besides the API servers connects",
    "resident_memory_bytes": "near the limit of the container: add memory; rises for days without more Jobs: report it",
    "connections_dropped": "rises: let only the API server reach the port",
    "leader_failures": "rises: a bug, report it with the log line `the work of the leader failed`",
    "ledger_leading": "no replica has 1: the log line `lease not held` says why",
    "ledger_forbidden": "1: apply `ledger-rbac.yaml` of the base again",
    "ledger_workloads": "none",
    "ledger_workloads_at_last_attempt": "none; take the `max` of the replicas, because every replica knows them all",
    "ledger_attempts": "none; many `ExitCode` with `fatal` are bugs that were found at once",
    "ledger_on_failure_decisions": "many `None`: `retry-policy explain` shows how they ended; add a rule if one helps",
    "ledger_disruptions": "none; compare zones, machine types and times of day",
    "ledger_evictions": "`Preempted` or `PodsReadyTimeout` rises: the quota is short, or pods find no node",
    "ledger_spot_attempts_lost": "none; `retry_policy_ledger_disruptions` counts the disruptions alone, on all nodes",
    "spot_zone_lost_ratio": (
        "above `placement.wave.share`: new attempts avoid the zone; take the `max` of the replicas: all of them "
        "watch all zones"
    ),
    "rejecting_nodes": "above 0: the Event `RejectsPods` on the node says why; drain and repair it",
    "faulty_nodes": "above 0: the Event `HardwareFaults` on the node says why; drain and repair it",
    "ledger_attempt_seconds": "`lost` grows: `retry-policy report` says to what; checkpoints make it `kept`",
    "ledger_hardware_faults": "rises: the Event `HardwareFault` on the workload names the node; drain and repair it",
    "ledger_attempts_saved": "none; it is what the policy has saved",
    "ledger_workloads_stopped": "none; `retry-policy explain` says for each workload why it was stopped",
    "ledger_writes": "`bad` rises: the log line `account not written` says why",
    "history_records": "`dropped` rises: the log line `history not written` or `history refused` says why",
    "history_failures": "rises: the log line `history not written` has the error",
    "history_records_waiting": "rises: as above",
    "ledger_behind": "rises: the API server sends watch events late",
    "objects_set_aside": "rises: a handler has raised about an object; the log line `object set aside` names it",
    "steps_failed": "rises: a repeated step has ended with an error, which the log line `step failed` has",
    "events_dropped": (
        "rises: more pods end than Events are written (50 a second); the accounts, and so `explain`, have all of them"
    ),
    "leader_actions": (
        "`delayed` rises: more is done than `rateLimit` allows; find out why before you raise it. `stopped`: see "
        "`retry_policy_emergency`"
    ),
    "emergency": "1: somebody has stopped something on purpose; end it once the reason is gone",
    "waiting_pods": (
        "`Delay` never falls: no replica leads, so that no delay ends; `Unschedulable` rises: there are too few nodes; "
        "take the `max` of the replicas, because every replica knows them all"
    ),
    "waiting_pods_ended": "`SpotUnavailable` rises: allow other machine types or zones; `NeverStarted`: fix the image",
    "requested_retries": "`stuck` rises: the Event `RetryStuck` on the object names reason and remedy",
    "build_info": "none; `count by (version)` shows a roll-out",
}


def defined(**meanings: str) -> str:
    """Define the values of a label."""
    return "; ".join(f"`{value}`: {meaning}" for value, meaning in meanings.items())


def quoted(values: Any) -> str:
    """List values that say themselves what they mean."""
    return ", ".join(f"`{value}`" for value in values)


EDITING: Final[list[Rule[Any]]] = [*registry.JOB_RULES, *registry.WORKLOAD_RULES, *registry.POD_RULES]
DENYING: Final[list[Rule[Any]]] = [*registry.VALIDATING_RULES, registry.CONTROLLED]
RULES: Final = dict.fromkeys(rule.name for rule in EDITING + DENYING)
PATH: Final = "what the API server asked: `mutate`, `validate` or `retry`"
OF_RULES: Final = (
    f"the rule: {quoted(RULES)}, `{RULE}`; for problems also "
    "`shape` (wrong types), `policy` and `opt_in` (a Namespace's labels); empty if an injected field is put back"
)
MODE: Final = f"the mode of the namespace: {quoted(opt_in.MODES)}"
STOPPED_FOR: Final = {
    LIMIT_EXCEEDED: "more disruptions than `disruptions.limit`",
    FREE_TOO_OFTEN: "more free restarts than `retries.limit`",
    EVICTED_TOO_OFTEN: "evicted by Kueue more often than `kueue.evictions.limit`",
    JOB_WIDE: "as many indexes have failed as `failurePolicy.jobWide` says, and none has finished",
    TOO_OFTEN: "no retry was left, where only the leader counts them",
    NO_PROGRESS: "two attempts ended alike with the same progress, with `retries.renewOnProgress`",
    POD_FAILURE_POLICY: "a bug that the ledger found, or a `Fatal` rule of `onFailure`",
    NEVER_STARTED: "a container did not start within `startTimeout`",
}
need_rows(STOPPED_FOR, REASONS)
ACTIONS: Final = {
    "evict": (
        "the end of a pod that waits for spot nodes, whose containers cannot start, whose node is unreachable, or that "
        "tells no progress"
    ),
    "fail": "the end of a workload at a limit",
    "suspend": "that of a Job at a limit",
    "settle": "the end of a Job with a bug",
    "raise": "a higher `backoffLimit`, because retries count no more",
    "lift": "the end of a delay",
    "retry": "a requested retry",
}
need_rows(ACTIONS, get_args(Action))
# The values of each label.
LABELS: Final[dict[tuple[str, str], str]] = {
    ("ledger_attempt_seconds", "work"): "`kept`: the next attempt need not repeat it; `lost`: all else",
    ("admission_requests", "path"): PATH,
    ("admission_requests", "kind"): (
        f"one of the {len(KINDS)} [kinds](workloads.md#kinds), `Namespace` or `ConfigMap`; "
        "empty for a kind that no rule is about"
    ),
    ("admission_requests", "operation"): (
        "`CREATE`, `UPDATE`; `DELETE` and `CONNECT`, always `untouched`; empty if the request could not be read"
    ),
    ("admission_requests", "result"): defined(
        patched="edited",
        allowed="allowed as it is",
        denied="denied",
        untouched="of a kind or operation that no rule is about",
        unavailable="answered 503, because the API server did not answer a look-up or no policy is in force",
        overloaded="answered 429, because too many requests wait",
        bad="answered 4xx, because the request is no review",
        error="answered 500",
    ),
    ("admission_duration_seconds", "path"): PATH,
    ("edits", "rule"): OF_RULES,
    ("edits", "mode"): MODE,
    ("problems", "rule"): OF_RULES,
    ("problems", "mode"): MODE,
    ("requests_denied", "namespace"): "that of the object; `(other)` after 200 pairs of namespace and profile",
    ("requests_denied", "profile"): "of the namespace",
    ("requests_not_enforced", "namespace"): "that of the object; `(other)` after 200 pairs of namespace and profile",
    ("requests_not_enforced", "profile"): "of the namespace",
    ("requests_not_enforced", "would_be"): defined(denied="Enforce would deny it", changed="Enforce would change it"),
    ("placements", "placement"): defined(Spot="on spot", OnDemand="on demand", **{"None": "neither"}),
    ("memory_growths", "result"): defined(
        Grown="nothing: it got what the rule says",
        Limit="the limit of the policy or of the author",
        Node="the largest node",
        LimitRange="a LimitRange",
        ResourceQuota="what a ResourceQuota has left",
        Kueue="the quota of a Kueue queue",
        PodResources="`spec.resources` of the pod",
        Unknown="bounds that cannot be read",
    ),
    ("policy_reloads", "result"): defined(good="put in force", bad="refused"),
    ("policy_profiles", "provider"): (
        f"`placement.provider` of the profile: {quoted(get_args(Placement.__annotations__['provider']))}"
    ),
    ("cache_age_seconds", "list"): (
        "the resource that is watched, of most workloads with its group: `workflows.argoproj.io`; `requested-` before "
        "it: those whose retry is requested"
    ),
    ("api_busy", "method"): "of the HTTP request",
    ("certificate_not_after_timestamp_seconds", "certificate"): defined(
        leaf="the one that is served", authority="the one that signs"
    ),
    ("certificate_renewals", "result"): defined(
        good="a certificate was taken into use", bad="it could not be renewed or loaded, or no `caBundle` written"
    ),
    ("connections_dropped", "reason"): defined(
        handshake="TLS was not finished in 10 s, or to make room",
        slow="a request or its answer made too little progress",
        silent="nothing was asked in 10 s",
        room="to make room for others",
    ),
    ("objects_set_aside", "work"): (
        "a list that is watched, as of `cache_age_seconds`; `events`, `nodes` or `workloads`: what a program looks at; "
        f"{quoted(('accounts', 'crashes', 'finished Jobs', 'old accounts', 'requested retries'))} or `waiting pods`: "
        "what the controller does about an object"
    ),
    ("steps_failed", "step"): "what a program does again and again, in words",
    ("leader_failures", "lease"): quoted((LEDGER_LEASE, RETRIES_LEASE)),
    ("ledger_attempts", "cause"): quoted(get_args(Cause)),
    ("ledger_attempts", "cost"): defined(
        retry="one of the retries",
        disruption="one of the disruptions",
        free="no budget: a restart that the author's rules make free",
        fatal="ended the workload or its index",
        none="the pod was taken away, nothing failed",
    ),
    ("ledger_on_failure_decisions", "profile"): "of the namespace",
    ("ledger_on_failure_decisions", "rule"): "`0` for the first one; `None` if no rule matched",
    ("ledger_disruptions", "reason"): f"of the condition `DisruptionTarget`: {quoted(sorted(DISRUPTIONS))}, `Other`",
    ("ledger_evictions", "reason"): f"of the condition `Evicted`: {quoted(kueue.REASONS)}, `Other`",
    ("spot_zone_lost_ratio", "zone"): "of the node; at most 100",
    ("ledger_workloads_stopped", "action"): defined(
        Failed="ended",
        Suspended="waits until a user resumes it",
        Deactivated="waits until a user sets `spec.active` of its Workload",
    ),
    ("ledger_workloads_stopped", "reason"): defined(**STOPPED_FOR),
    ("history_records", "result"): defined(written="written", dropped="lost"),
    ("ledger_writes", "result"): defined(
        good="written",
        conflict="the account had changed meanwhile; it is written again",
        bad="failed; it is tried again",
        mark="a counted pod that stays was marked",
    ),
    ("leader_actions", "action"): defined(**ACTIONS),
    ("leader_actions", "result"): defined(
        taken="allowed, and tried",
        stopped="not taken, because of `emergency.actions: Stop`",
        reported="not taken, because of `actions: Report` of the profile",
        delayed="tried again later, because of `rateLimit`",
    ),
    ("emergency", "stops"): defined(
        actions="what the leader does to objects", retries="the retries of what is created or changed"
    ),
    ("waiting_pods", "reason"): defined(
        Delay="a rule of `onFailure` asks for a delay",
        Unschedulable="no node takes it",
        NotStarted="a container of it has not started",
        Terminating="it is being deleted",
    ),
    ("waiting_pods_ended", "reason"): defined(
        **{
            SPOT_UNAVAILABLE: "no spot node took it within `spotWait`",
            NEVER_STARTED: "a container did not start, and a rule asks for another attempt",
            NODE_LOST: "its node was unreachable for `unreachableTimeout` when it should have ended",
            STALLED: "its program told no progress for `stallTimeout`",
        }
    ),
    ("requested_retries", "kind"): quoted(kind.kind_name for kind in ADAPTERS),
    ("requested_retries", "result"): defined(
        started="runs again", refused="does not run again", stuck="cannot go on; it is tried again"
    ),
    ("build_info", "version"): "of the server",
}


def collectors() -> dict[str, MetricWrapperBase]:
    """Return the server's metrics by name."""
    every = [one for one in vars(metrics).values() if isinstance(one, MetricWrapperBase)]
    return {family_of(one).name: one for one in every}


def family_of(metric: MetricWrapperBase) -> Metric:
    """Return name, type and help of a metric."""
    (family,) = metric.describe()
    return family


def labels_of(metric: MetricWrapperBase) -> tuple[str, ...]:
    """Return the names of a metric's labels."""
    names: tuple[str, ...] = metric._labelnames  # noqa: SLF001 - nothing public has them before the first count
    return names


def short(name: str) -> str:
    """Return a metric's name without the prefix that all have."""
    return name.removeprefix("retry_policy_")


def table() -> str:
    """Show each metric."""
    lines = ["| Metric | Type, unit | Labels | Meaning | What to do |", "|---|---|---|---|---|"]
    for name, metric in collectors().items():
        family = family_of(metric)
        labels = quoted(labels_of(metric)) or "-"
        kind = ", ".join(filter(None, (family.type, unit(name))))
        lines.append(f"| `{name}` | {kind} | {labels} | {family.documentation} | {REMEDIES[short(name)]} |")
    return "\n".join(lines) + "\n"


def unit(name: str) -> str:
    """Return the unit that a metric's name ends in, empty for a plain number."""
    return next((unit for end, unit in UNITS.items() if name.endswith(end)), "")


def labels_table() -> str:
    """Show the values of each label."""
    lines = ["| Metric | Label | Values |", "|---|---|---|"]
    for name, metric in collectors().items():
        lines += [f"| `{name}` | `{label}` | {LABELS[short(name), label]} |" for label in labels_of(metric)]
    return "\n".join(lines) + "\n"
