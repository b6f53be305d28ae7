"""Every label and annotation key once, with who writes it and who reads it."""

from typing import Final

PREFIX: Final = "retry-policy.dev/"

# Label on Namespaces, and templates of the whole cluster, written by the cluster admin: opts in and names the profile.
# Label on Jobs, JobSets and pods, written by the webhook: one label-selected watch finds them again.
PROFILE: Final = PREFIX + "profile"

# Label on Namespaces, written by the cluster admin: Enforce (as if absent), Warn or Audit.
MODE: Final = PREFIX + "mode"

# Annotation on a workload or pod, written by its author or another system: the 0-based attempt; wins over any other
# source.
# Annotation on pods, written by the webhook where absent: the attempt that placement was decided on.
ATTEMPT: Final = PREFIX + "attempt"

# Annotation on a workload, written by its author: own retry budget within the profile's limit; copied into its pod
# templates.
# Annotation on pods, written by the webhook where absent: the budget that placement was decided on.
MAX_RETRIES: Final = PREFIX + "max-retries"

# Annotation on a workload, written by its author: own disruption budget within the profile's limit.
MAX_DISRUPTIONS: Final = PREFIX + "max-disruptions"

# Annotation on a workload, written by its author: "false" is on-demand from the first attempt, "true" makes a bare pod
# take part.
INTERRUPTIBLE: Final = PREFIX + "interruptible"

# Annotation on a workload, written by its author: "true" leaves it alone, where the profile allows it.
SKIP: Final = PREFIX + "skip"

# Annotation on pods, written by the webhook, read by people and by the ledger: Spot, OnDemand or None.
PLACEMENT: Final = PREFIX + "placement"

# Annotation on pods, written by the webhook: which source told the attempt (see webhook/attempts/).
ATTEMPT_SOURCE: Final = PREFIX + "attempt-source"

# Annotation on Jobs, written and read by the webhook: JSON, the profile and what was injected, so that it can be taken
# out again.
POLICY: Final = PREFIX + "policy"

# Annotation on Jobs and JobSets, written by the ledger: JSON, every ended pod by cause and cost (see
# webhook/ledger/model/account.py).
LEDGER: Final = PREFIX + "ledger"

# Annotation on ended pods, written by the ledger where many of them stay: this one is counted.
COUNTED: Final = PREFIX + "counted"

# Annotation on a workload, or a template in it, written by its author: "true" says that it may run twice, so that a
# person may ask for it; "false" that it may not.
RETRYABLE: Final = PREFIX + "retryable"

# Annotation on a workload, written by a person or another system: asks for a retry, RFC 3339 (see
# webhook/retry/requests.py).
RETRY_REQUESTED_AT: Final = PREFIX + "retry-requested-at"

# Annotation on a PipelineRun, written by its author: "true" has what of `finally` has succeeded not run again, where
# that annotation asks for it.
KEEP_FINALLY: Final = PREFIX + "keep-finally"

# Annotation on a workload, written by the webhook, read by its leader: JSON, who has asked so, and for what.
RETRY_ACCEPTED: Final = PREFIX + "retry-accepted"

# Label on a workload while it is made to run again, and on a placeholder: the leader finds them by it.
RETRY_IN_PROGRESS: Final = PREFIX + "retry-in-progress"

# Annotation on workloads, written by whoever carries a requested retry out: JSON, who asked for each and when (see
# webhook/retry/record.py).
RETRY_HISTORY: Final = PREFIX + "retry-history"

# Label on a placeholder, the suspended Job that keeps the manifest of a Job while that is created again: the uid of
# the Job that has failed. Label and annotation on the Job that is created from it, until that is released.
RETRY_OF: Final = PREFIX + "retry-of"

# Annotation on a Job that is created so, until it is released: "true" where it then stays suspended, for a queue or a
# person to resume.
STAYS_SUSPENDED: Final = PREFIX + "stays-suspended"

# Annotation on a placeholder: JSON, the retry state, with what its successor has and it has not (see
# webhook/retry/kinds/job.py).
SUCCESSOR: Final = PREFIX + "successor"

# What an author may say on a workload and what its pods must know too: copied into pod templates where absent.
COPIED_TO_PODS: Final[tuple[str, ...]] = (INTERRUPTIBLE, MAX_RETRIES)

# What an author may say on a CronJob and what its Jobs must know too: copied into the Job template where absent.
COPIED_TO_JOBS: Final[tuple[str, ...]] = (INTERRUPTIBLE, MAX_RETRIES, MAX_DISRUPTIONS, RETRYABLE, SKIP)

# What an author may say on an object, and is judged for.
SAID_BY_AUTHORS: Final = (ATTEMPT, INTERRUPTIBLE, MAX_DISRUPTIONS, MAX_RETRIES, RETRYABLE, SKIP)
SAID: Final = frozenset(SAID_BY_AUTHORS)  # asked of every map of annotations
