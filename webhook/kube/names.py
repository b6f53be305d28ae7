"""All label and annotation keys of this project, each with its writers and readers."""

from typing import Final

PREFIX: Final = "retry-policy.dev/"
COMPONENT: Final = "retry-policy-webhook"  # in the names of the objects of an installation
# Labels of the objects that the controller creates for the installation.
OF_INSTALLATION: Final = {"app.kubernetes.io/name": COMPONENT, "app.kubernetes.io/managed-by": COMPONENT}

# Label on Namespaces and cluster-scoped templates, written by the cluster admin: opts in and names the profile.
# Label on Jobs, JobSets and pods, written by the webhook: its watches select objects by it.
PROFILE: Final = PREFIX + "profile"

# Label on Namespaces, written by the cluster admin: Enforce (the default), Warn or Audit.
MODE: Final = PREFIX + "mode"

# Annotation on a workload or pod, written by its author or another system: the 0-based attempt; wins over any other
# source.
# Annotation on pods, written by the webhook where absent: the retries that were spent when the pod was created.
ATTEMPT: Final = PREFIX + "attempt"

# Annotation on a workload, written by its author: own retry budget within the profile's limit; copied into its pod
# templates.
# Annotation on pods, written by the webhook where absent: the retry budget that the attempt counts against.
MAX_RETRIES: Final = PREFIX + "max-retries"

# Annotation on pods, written by the webhook: the disruptions that were counted when the pod was created, as placement
# compares them with max-disruptions. Read by the ledger and by the next admission if an account lacks the pod's index.
DISRUPTIONS: Final = PREFIX + "disruptions"

# Annotation on a workload, written by its author: own disruption budget within the profile's limit.
# Annotation on pods, written by the webhook: the disruption budget that placement was decided on.
MAX_DISRUPTIONS: Final = PREFIX + "max-disruptions"

# Annotation on a workload, written by its author: "false" places it on-demand from the first attempt, "true" also
# applies the policy to a pod without a controller.
INTERRUPTIBLE: Final = PREFIX + "interruptible"

# Annotation on a workload, written by its author: "true" exempts it from the policy, if the profile allows it.
SKIP: Final = PREFIX + "skip"

# Annotation on a workload, written by its author: "true" means that no pod of a Job needs another one, "false" that
# they do; see failurePolicy.manyPods.
INDEPENDENT_PODS: Final = PREFIX + "independent-pods"

# Annotations on a workload, written by its author: how long it takes undisturbed, such as 12h; when it is to be done: a
# multiple of that (2x), a time after its creation (18h), or a time; how much work one disruption costs at most (30m).
WORK: Final = PREFIX + "work"
DEADLINE: Final = PREFIX + "deadline"
CHECKPOINT: Final = PREFIX + "checkpoint"

# Annotation on a Job, written by the webhook beside `work`, which its author has left out: of which Jobs that is.
WORK_SOURCE: Final = PREFIX + "work-source"

# Annotation on a pod, written by its program: the part of its work that the next attempt need not do again, 0 to 1.
PROGRESS: Final = PREFIX + "progress"

# Condition of a pod, written by the leader: its program has told no progress for stallTimeout, and is ended for that.
STALLED: Final = PREFIX + "Stalled"

# Annotation on a workload, written by its author: "Off" exempts it from the rules of onFailure.
ON_FAILURE: Final = PREFIX + "on-failure"

# Annotation on a workload, written by its author: the most memory that a container of it may grow to, such as 32Gi, at
# most that of the rule.
MEMORY_LIMIT: Final = PREFIX + "memory-limit"

# Annotation on pods, written by the webhook, read by the ledger and by the next admission: JSON, the rule of onFailure
# that decided after the last attempt, and what it and the rules before it ask for (see
# webhook/pods/on_failure.py).
AFTER_FAILURE: Final = PREFIX + "after-failure"

# Annotation on pods, written by the webhook, read by people: how the memory of containers that were killed for it has
# grown, and what has held it back.
MEMORY: Final = PREFIX + "memory"

# Annotation on pods, written by the webhook, read by both programs: the proof of what PROVEN names.
PROOF: Final = PREFIX + "proof"

# Scheduling gate on pods, put on by the webhook, removed by the leader: the delay that a rule of onFailure asks for.
DELAY: Final = PREFIX + "delay"

# Annotation on pods, written by the webhook, read by people and by the ledger: Spot, OnDemand or None.
PLACEMENT: Final = PREFIX + "placement"

# Annotation on pods, written by the webhook: the source of the attempt (see webhook/systems/attempts.py).
ATTEMPT_SOURCE: Final = PREFIX + "attempt-source"

# Annotation on Jobs, written and read by the webhook: JSON, the profile and the injected values, so that they can be
# removed again.
POLICY: Final = PREFIX + "policy"

# Annotation on pods, written by the ledger if a workload has many of them: the ledger has counted the pod's end, at a
# time; or, with `restarts N`, so many of its restarts in place. The proof of that follows after a space.
COUNTED: Final = PREFIX + "counted"

# Annotation on a workload, or a template in it, written by its author: "true" means that it may run twice, so that a
# person may request a retry; "false" means that it may not.
RETRYABLE: Final = PREFIX + "retryable"

# Annotation on a workload, written by a person or another system: asks for a retry, RFC 3339 (see
# webhook/retry/requests.py).
RETRY_REQUESTED_AT: Final = PREFIX + "retry-requested-at"

# Annotation on a PipelineRun, written by its author: with "true" a requested retry does not rerun those tasks of
# `finally` that have succeeded.
KEEP_FINALLY: Final = PREFIX + "keep-finally"

# Annotation on a workload, written by the webhook, read by its leader: JSON, the user and the content of the request.
RETRY_ACCEPTED: Final = PREFIX + "retry-accepted"

# Label on a workload during a requested retry, and on a placeholder: the leader lists objects by it.
RETRY_IN_PROGRESS: Final = PREFIX + "retry-in-progress"

# Annotation on workloads, written by the executor of a requested retry: JSON, the user and time of each (see
# webhook/retry/record.py).
RETRY_HISTORY: Final = PREFIX + "retry-history"

# Label on a placeholder: the uid of the failed Job. A placeholder is a suspended Job that keeps the manifest of the
# failed Job while its successor is created. Label and annotation on the successor until it is released.
RETRY_OF: Final = PREFIX + "retry-of"

# Annotation on a successor until it is released: "true" if it stays suspended then, until a queue or a person resumes
# it.
STAYS_SUSPENDED: Final = PREFIX + "stays-suspended"

# Annotation on a placeholder: JSON, the retry state, with the fields of the successor that the placeholder lacks (see
# webhook/systems/job/rerun.py).
SUCCESSOR: Final = PREFIX + "successor"

# Annotations that are copied from a workload to its pod templates, if absent there.
COPIED_TO_PODS: Final[tuple[str, ...]] = (INTERRUPTIBLE, MAX_RETRIES)

# Annotations that are copied from a CronJob to its Job template, if absent there.
COPIED_TO_JOBS: Final[tuple[str, ...]] = (
    *(CHECKPOINT, DEADLINE, INDEPENDENT_PODS, INTERRUPTIBLE, MAX_RETRIES, MAX_DISRUPTIONS, MEMORY_LIMIT),
    *(ON_FAILURE, RETRYABLE, SKIP, WORK),
)

# What a value may decide depends on its source. Every annotation is in one of these sets; on pods, PROVEN comes first.

# The word of an author, a person or another system. Admission judges its value, and it decides what its writer may.
SAID_BY_AUTHORS: Final = (
    *(ATTEMPT, CHECKPOINT, DEADLINE, INDEPENDENT_PODS, INTERRUPTIBLE, MAX_DISRUPTIONS, MAX_RETRIES, MEMORY_LIMIT),
    *(ON_FAILURE, RETRYABLE, SKIP, WORK),
)
SAID: Final = frozenset(SAID_BY_AUTHORS)  # a set: every annotations map is tested against it
# For a requested retry: whoever writes it may decide the same without it.
ASKED: Final = frozenset({KEEP_FINALLY, RETRY_REQUESTED_AT, STAYS_SUSPENDED})

# What a program says of itself while it runs; admission does not see it.
TOLD: Final = frozenset({PROGRESS})

# What the webhook has found out about a pod. The ledger and the next admission believe it only with PROOF, whatever
# else the pod has: without the webhook, or before the opt-in, it is the author who wrote it. COUNTED has a proof of its
# own (see webhook/kube/state_key.py).
PROVEN: Final = (AFTER_FAILURE, ATTEMPT, DISRUPTIONS, MAX_RETRIES, PLACEMENT)
PROOFS: Final = frozenset({COUNTED, PROOF})

# Records of ours on a workload. Admission refuses or undoes what others write into them, wherever the namespace is.
KEPT: Final = frozenset({POLICY, RETRY_ACCEPTED, RETRY_HISTORY, RETRY_OF, SUCCESSOR})

# For people: no decision reads it from an object that exists.
SHOWN: Final = frozenset({ATTEMPT_SOURCE, MEMORY, WORK_SOURCE})

# The keys that have a meaning as a label, or as an annotation, of a workload or pod; the labels of a Namespace.
LABELS: Final = frozenset({PROFILE, RETRY_IN_PROGRESS, RETRY_OF})
ANNOTATIONS: Final = SAID | ASKED | TOLD | frozenset(PROVEN) | PROOFS | KEPT | SHOWN
NAMESPACE_LABELS: Final = frozenset({MODE, PROFILE})
