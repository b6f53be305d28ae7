"""The server's metrics: names, labels, help and buckets, each stated once.

An admission counts through `requests`, `edits`, `problems`, `denied`, `not_enforced` and `placements`, which hold the
children of their metric: prometheus_client's `labels` checks its arguments and takes a lock, at twice the cost of the
increment.
"""

from functools import cache
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

from webhook import __version__

REGISTRY: Final = CollectorRegistry()

# Otherwise each counter has a second series, `_created`, which nothing reads.
disable_created_metrics()  # type: ignore[no-untyped-call]

REQUESTS: Final = Counter(
    "retry_policy_admission_requests",
    "Admission requests, by result: patched, allowed, denied, untouched, unavailable, overloaded, bad or error.",
    ("path", "kind", "operation", "result"),
    registry=REGISTRY,
)
requests: Final = cache(REQUESTS.labels)
DURATION: Final = Histogram(
    "retry_policy_admission_duration_seconds",
    "Time from the first byte read to the answer.",
    ("path",),
    buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0),
    registry=REGISTRY,
)
for path in ("mutate", "validate", "retry"):
    DURATION.labels(path)  # reported from the start, with a count of 0
    for result in ("bad", "overloaded"):
        requests(path, "", "", result)
EDITS: Final = Counter(
    "retry_policy_edits",
    "Edits by rule and mode; in Warn and Audit those that would have been made.",
    ("rule", "mode"),
    registry=REGISTRY,
)
edits: Final = cache(EDITS.labels)
PROBLEMS: Final = Counter(
    "retry_policy_problems",
    "Problems by rule and mode; in Warn and Audit those that would have denied a request.",
    ("rule", "mode"),
    registry=REGISTRY,
)
problems: Final = cache(PROBLEMS.labels)
REQUESTS_DENIED: Final = Counter(
    "retry_policy_requests_denied",
    "Requests denied in opted-in namespaces. After 200 pairs of namespace and profile the namespace is (other).",
    ("namespace", "profile"),
    registry=REGISTRY,
)
denied: Final = cache(REQUESTS_DENIED.labels)
NOT_ENFORCED: Final = Counter(
    "retry_policy_requests_not_enforced",
    "Requests in namespaces of mode Warn or Audit, by what Enforce would do: denied or changed. After 200 pairs of "
    "namespace and profile the namespace is (other).",
    ("namespace", "profile", "would_be"),
    registry=REGISTRY,
)
not_enforced: Final = cache(NOT_ENFORCED.labels)
PLACEMENTS: Final = Counter(
    "retry_policy_placements",
    "Pods placed, by placement (Spot, OnDemand, None).",
    ("placement",),
    registry=REGISTRY,
)
placements: Final = cache(PLACEMENTS.labels)
for placement in ("Spot", "OnDemand", "None"):
    placements(placement)  # reported from the start: Prometheus sees no increase of a series that begins with 1
MEMORY_GROWTHS: Final = Counter(
    "retry_policy_memory_growths",
    "Containers of new pods that were killed for their memory before and should get more, by what held that back.",
    ("result",),
    registry=REGISTRY,
)
memory_growths: Final = cache(MEMORY_GROWTHS.labels)
for result in ("Grown", "Limit", "Node", "LimitRange", "ResourceQuota", "Kueue", "PodResources", "Unknown"):
    memory_growths(result)  # likewise
UNKNOWN_PROFILES: Final = Counter(
    "retry_policy_unknown_profile_requests",
    "Requests in namespaces whose profile the policy does not have.",
    registry=REGISTRY,
)
POLICY_GENERATION: Final = Gauge(
    "retry_policy_policy_generation",
    "How many policies have been in force since the start; 0 until a good one has been read.",
    registry=REGISTRY,
)
POLICY_RELOADS: Final = Counter(
    "retry_policy_policy_reloads", "Policy texts read, by result: good or bad.", ("result",), registry=REGISTRY
)
POLICY_LAST_RELOAD_GOOD: Final = Gauge(
    "retry_policy_policy_last_reload_good",
    "1 if the newest policy text is in force; 0 if it was refused, and the previous one or none is in force.",
    registry=REGISTRY,
)
POLICY_PROFILES: Final = Gauge(
    "retry_policy_policy_profiles",
    "Profiles of the policy in force, by the provider that they name.",
    ("provider",),
    registry=REGISTRY,
)
CACHE_AGE: Final = Gauge(
    "retry_policy_cache_age_seconds",
    "How long a cache has not been watched: 0 while its watch is open. Else the replica asks the API server each time.",
    ("list",),
    registry=REGISTRY,
)
API_BUSY: Final = Counter(
    "retry_policy_api_busy",
    "Requests that the API server has refused because it is busy (429, or another error with Retry-After).",
    ("method",),
    registry=REGISTRY,
)
for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
    API_BUSY.labels(method)
PROVIDER_RECOGNISED: Final = Gauge(
    "retry_policy_capacity_provider_recognised",
    "1 if the cluster's capacity provider is known; at 0 profiles with provider auto place no pod.",
    registry=REGISTRY,
)
CERTIFICATE_NOT_AFTER: Final = Gauge(
    "retry_policy_certificate_not_after_timestamp_seconds",
    "When a certificate expires, Unix time: leaf, the served certificate; authority, the CA that signs it.",
    ("certificate",),
    registry=REGISTRY,
)
CERTIFICATE_TRUSTED: Final = Gauge(
    "retry_policy_certificate_trusted",
    "1 if every caBundle of the webhook configurations trusts the certificate that is served.",
    registry=REGISTRY,
)
CERTIFICATE_RENEWALS: Final = Counter(
    "retry_policy_certificate_renewals",
    "Certificates taken into use (good), and tries to renew or load one, or to write a caBundle, that failed (bad).",
    ("result",),
    registry=REGISTRY,
)
READY: Final = Gauge(
    "retry_policy_ready",
    "1 if admission requests may be sent to this replica, as its /readyz says; the controller answers none: 0.",
    registry=REGISTRY,
)
WAITING: Final = Gauge(
    "retry_policy_admission_requests_waiting",
    "Requests that wait for an answer of the API server, at most 128; one namespace may have as many as are left free.",
    registry=REGISTRY,
)
HELD_BYTES: Final = Gauge(
    "retry_policy_admission_held_bytes",
    "Bytes of bodies, from when they arrive until the answer.",
    registry=REGISTRY,
)
CONNECTIONS: Final = Gauge(
    "retry_policy_connections",
    "Open connections of the admission port, after their TLS handshake.",
    registry=REGISTRY,
)
RESIDENT_MEMORY: Final = Gauge(
    "retry_policy_resident_memory_bytes",
    "Memory of the process, without what is swapped out.",
    registry=REGISTRY,
)
CONNECTIONS_DROPPED: Final = Counter(
    "retry_policy_connections_dropped",
    "Connections closed because the client did not finish something (handshake, slow, silent), or to make room.",
    ("reason",),
    registry=REGISTRY,
)
for reason in ("handshake", "slow", "silent", "room"):
    CONNECTIONS_DROPPED.labels(reason)
LEADER_FAILURES: Final = Counter(
    "retry_policy_leader_failures",
    "How often the work of a leader has failed, by the lease that it held. It releases the lease, and tries again.",
    ("lease",),
    registry=REGISTRY,
)
LEDGER_LEADING: Final = Gauge(
    "retry_policy_ledger_leading", "1 on the replica that writes the ledger.", registry=REGISTRY
)
LEDGER_FORBIDDEN: Final = Gauge(
    "retry_policy_ledger_forbidden",
    "1 if this replica may not write the ledger: its Role is not installed. Disruptions then have no limit.",
    registry=REGISTRY,
)
LEDGER_WORKLOADS: Final = Gauge(
    "retry_policy_ledger_workloads",
    "Jobs, JobSets, and workloads of other kinds with pods, that are watched.",
    registry=REGISTRY,
)
LEDGER_AT_LAST_ATTEMPT: Final = Gauge(
    "retry_policy_ledger_workloads_at_last_attempt",
    "Workloads that have no retry left and have not ended; every replica knows them all.",
    registry=REGISTRY,
)
LEDGER_ATTEMPTS: Final = Counter(
    "retry_policy_ledger_attempts",
    "Pods that ended without success, by cause and by what that cost: retry, disruption, free, fatal or none.",
    ("cause", "cost"),
    registry=REGISTRY,
)
LEDGER_DECISIONS: Final = Counter(
    "retry_policy_ledger_on_failure_decisions",
    "Ended pods of profiles with rules of onFailure, by the index of the rule that decided; None if none matched.",
    ("profile", "rule"),
    registry=REGISTRY,
)
LEDGER_DISRUPTIONS: Final = Counter(
    "retry_policy_ledger_disruptions", "Disrupted pods, by the condition's reason.", ("reason",), registry=REGISTRY
)
LEDGER_EVICTIONS: Final = Counter(
    "retry_policy_ledger_evictions",
    "Evictions of the Workloads of Kueue, by Kueue's reason; one may end many pods.",
    ("reason",),
    registry=REGISTRY,
)
LEDGER_SPOT_LOST: Final = Counter(
    "retry_policy_ledger_spot_attempts_lost",
    "Pods placed on spot that ended without success, from any cause: also bugs, and pods of a Job that was suspended.",
    registry=REGISTRY,
)
SPOT_ZONE_LOST: Final = Gauge(
    "retry_policy_spot_zone_lost_ratio",
    "Share of a zone's spot pods that evictions and lost nodes took in the last ten minutes, 0 to 1 (placement.wave).",
    ("zone",),
    registry=REGISTRY,
)
NODES_REJECTING: Final = Gauge(
    "retry_policy_rejecting_nodes",
    "Nodes that have rejected pods three times or more in ten minutes, at any time of the last 24 hours.",
    registry=REGISTRY,
)
NODES_FAULTY: Final = Gauge(
    "retry_policy_faulty_nodes",
    "Nodes whose hardware has ended pods of two workloads or more in seven days, by failurePolicy.hardware.",
    registry=REGISTRY,
)
LEDGER_LOST_WORK: Final = Counter(
    "retry_policy_ledger_attempt_seconds",
    "How long the attempts ran that ended without success, and how much of that the next ones need not repeat.",
    ("work",),
    registry=REGISTRY,
)
LEDGER_HARDWARE: Final = Counter(
    "retry_policy_ledger_hardware_faults",
    "Crashes of pods that a fault of their node explains, by failurePolicy.hardware.",
    registry=REGISTRY,
)
LEDGER_SAVED: Final = Counter(
    "retry_policy_ledger_attempts_saved",
    "Retries that were left to workloads which failed at once.",
    registry=REGISTRY,
)
LEDGER_STOPPED: Final = Counter(
    "retry_policy_ledger_workloads_stopped",
    "Workloads that the leader failed, suspended or deactivated, by the reason in their condition or Event.",
    ("action", "reason"),
    registry=REGISTRY,
)
LEDGER_WRITES: Final = Counter(
    "retry_policy_ledger_writes",
    "Writes of accounts by result (good, conflict, bad), and marks on counted pods (mark).",
    ("result",),
    registry=REGISTRY,
)
for result in ("good", "conflict", "bad", "mark"):
    LEDGER_WRITES.labels(result)
LEDGER_BEHIND: Final = Counter(
    "retry_policy_ledger_behind",
    "Pods placed before the watch had delivered the end of the pod that they replace.",
    registry=REGISTRY,
)
OBJECTS_SET_ASIDE: Final = Counter(
    "retry_policy_objects_set_aside",
    "How often an object was left out because a handler raised something about it.",
    ["work"],
    registry=REGISTRY,
)
STEPS_FAILED: Final = Counter(
    "retry_policy_steps_failed",
    "Runs of a repeated step that ended with an error; the step is taken again.",
    ["step"],
    registry=REGISTRY,
)
EVENTS_DROPPED: Final = Counter(
    "retry_policy_events_dropped",
    "Events that were left out because too many waited to be written.",
    registry=REGISTRY,
)
LEADER_ACTIONS: Final = Counter(
    "retry_policy_leader_actions",
    "What the leader wanted to do to an object, by action and result: taken; stopped by emergency.actions; reported, "
    "as the profile says; delayed by rateLimit. An action that was not taken counts again at each further try.",
    ("action", "result"),
    registry=REGISTRY,
)
EMERGENCY: Final = Gauge(
    "retry_policy_emergency",
    "1 if the policy's emergency stops actions of the leader, or new retries.",
    ("stops",),
    registry=REGISTRY,
)
for stops in ("actions", "retries"):
    EMERGENCY.labels(stops).set(0)
WAITING_PODS: Final = Gauge(
    "retry_policy_waiting_pods",
    "Pods of Jobs that have not started: held back by a delay of onFailure (Delay), on no node (Unschedulable), or on "
    "a node with a container that waits (NotStarted). Every replica knows them all.",
    ("reason",),
    registry=REGISTRY,
)
WAITING_PODS_ENDED: Final = Counter(
    "retry_policy_waiting_pods_ended",
    "Pods that the leader ended because they waited in vain: for a spot node (SpotUnavailable), for the start of a "
    "container (NeverStarted), for the end on a node that is gone (NodeLost), or told no progress (Stalled).",
    ("reason",),
    registry=REGISTRY,
)
REQUESTED_RETRIES: Final = Counter(
    "retry_policy_requested_retries",
    "Retries that an annotation requested, or that were begun and interrupted, by result: started, refused, stuck.",
    ("kind", "result"),
    registry=REGISTRY,
)
HISTORY_RECORDS: Final = Counter(
    "retry_policy_history_records",
    "Records of ended attempts and workloads, by result: written, or dropped because too many waited or a collector "
    "refused them.",
    ("result",),
    registry=REGISTRY,
)
history: Final = cache(HISTORY_RECORDS.labels)
for result in ("written", "dropped"):
    history(result)
HISTORY_FAILURES: Final = Counter(
    "retry_policy_history_failures",
    "Tries to write a batch of records that failed; the batch is tried again.",
    registry=REGISTRY,
)
HISTORY_WAITING: Final = Gauge(
    "retry_policy_history_records_waiting",
    "Records that wait to be written, at most 10,000.",
    registry=REGISTRY,
)
BUILD: Final = Gauge("retry_policy_build_info", "Always 1.", ("version",), registry=REGISTRY)
BUILD.labels(__version__).set(1)
