"""All bounds on the size of one object, so that no request costs too much; the API's own bound if it has one.

An object that exceeds a bound has one problem and is not examined further: /mutate leaves it unchanged, with a warning,
and /validate denies it.
"""

from typing import Final

# Rules of a podFailurePolicy, exit codes and pod conditions of one rule (maxPodFailurePolicyRules,
# maxPodFailurePolicyOnExitCodesValues and maxPodFailurePolicyOnPodConditionsPatterns in
# pkg/apis/batch/validation/validation.go of Kubernetes).
MAX_RULES: Final = 20
MAX_VALUES: Final = 255
MAX_CONDITIONS: Final = 20

# Bytes of all annotations of an object together (TotalAnnotationSizeLimitB in
# staging/src/k8s.io/apimachinery/pkg/api/validation/objectmeta.go). Admission comes before that check.
MAX_ANNOTATIONS: Final = 256 * 1024

# Bytes of an environment variable, its name included: Linux starts no program with a longer one (MAX_ARG_STRLEN in
# include/uapi/linux/binfmts.h).
MAX_VARIABLE: Final = 128 * 1024

# Characters of an attempt signal of another system that is more than a number: the node name of an Argo Workflow.
MAX_SIGNAL: Final = 4_096

# Characters of a label or annotation key: a subdomain, a slash and a name (IsQualifiedName in
# staging/src/k8s.io/apimachinery/pkg/util/validation/validation.go).
MAX_KEY: Final = 253 + 1 + 63

# The range of int64, the widest integer type of any field.
LOWEST: Final = -(2**63)
HIGHEST: Final = 2**63 - 1

# Objects and lists nested in one object, counted as brackets. The densest legitimate field is managedFields, with two
# in 24 bytes: an object of 1.5 MiB, half of it managedFields, has 90,000. In memory each takes up to 240 bytes.
MOST_PARTS: Final = 100_000

# Entries that are objects or lists, in all lists and maps that rules iterate over: 5 to 30 µs each. A Workflow of 1.5
# MiB with a template and a task of 300 bytes for each step has this many.
MOST_ENTRIES: Final = 5_000
PLAIN_ENTRIES: Final = 20  # this many strings or numbers in a list or map cost as much as one object

# JobSpecs in one object: 100 µs each.
MOST_JOBS: Final = 1_000

# Levels of objects embedded in an object that are validated with it: a TriggerTemplate with an AppWrapper with a Job
# has 2. Objects at deeper levels are validated when they are created.
DEEPEST_EMBEDDED: Final = 2

# Characters of the annotation `policy`: half of what all annotations may have. For a JobSet of 100 replicated Jobs,
# each with two containers, a time limit and copied annotations, it has 92,000 characters, for 530 operations.
MAX_RECORD: Final = 128 * 1024
MOST_INJECTED: Final = 3_000  # operations; more than fit into MAX_RECORD
DEEPEST_INJECTED: Final = 16  # levels of one injected value; a podFailurePolicy has 6
MAX_POINTER: Final = 1_024  # characters of the path of an injected operation

# Problems of one object at which validation stops, and how many of them a message lists.
MOST_PROBLEMS: Final = 1_000
LISTED_PROBLEMS: Final = 100
MAX_PROBLEM: Final = 1_000  # characters of one problem
MAX_MESSAGE: Final = 32 * 1024  # characters of all listed problems together
LISTED_NAMES: Final = 10  # valid names that one problem lists

# The most retries that a profile can allow.
MOST_RETRIES: Final = 10

# The policy: a profile with all its fields has 1 KiB.
MAX_POLICY: Final = 256 * 1024  # characters
MOST_POLICY_EVENTS: Final = 20_000  # YAML events: scalars, and starts and ends of lists and objects
MOST_PROFILES: Final = 200
MOST_FAILURE_RULES: Final = 20  # of a profile: each ended attempt is compared with all of them
