"""Bounds on what one object may make the rules do, in one place; each with the API's own where it has one.

What an object holds beyond them is named in one problem and not looked at: /mutate leaves the object as it is, with a
warning, and /validate denies it.
"""

from typing import Final

# Of a podFailurePolicy (maxPodFailurePolicyRules, maxPodFailurePolicyOnExitCodesValues and
# maxPodFailurePolicyOnPodConditionsPatterns in pkg/apis/batch/validation/validation.go of Kubernetes).
MAX_RULES: Final = 20
MAX_VALUES: Final = 255
MAX_CONDITIONS: Final = 20

# Bytes of all annotations of an object together (TotalAnnotationSizeLimitB in
# staging/src/k8s.io/apimachinery/pkg/api/validation/objectmeta.go). Admission comes before that check.
MAX_ANNOTATIONS: Final = 256 * 1024

# Bytes of an environment variable, its name included (MAX_ARG_STRLEN in include/uapi/linux/binfmts.h of Linux): no
# program is started with a longer one.
MAX_VARIABLE: Final = 128 * 1024

# Characters of another system's signal that is not one number: a name of a node in a Workflow.
MAX_SIGNAL: Final = 4_096

# Characters of a label or annotation key: a subdomain, a slash and a name (IsQualifiedName in
# staging/src/k8s.io/apimachinery/pkg/util/validation/validation.go).
MAX_KEY: Final = 253 + 1 + 63

# What an int64 holds, the widest integer of any field.
LOWEST: Final = -(2**63)
HIGHEST: Final = 2**63 - 1

# Objects and lists in one object, counted as brackets. The densest that is honest is managedFields, with two in 24
# bytes: an object of 1.5 MiB, half of it managedFields, has 90,000. In memory each takes up to 240 bytes.
MOST_PARTS: Final = 100_000

# Objects and lists in those lists and maps that rules walk through, all together: 5 to 30 µs each. A Workflow of 1.5
# MiB with a template and a task of 300 bytes for each step has as many.
MOST_ENTRIES: Final = 5_000
PLAIN_ENTRIES: Final = 20  # strings and numbers in a list or map that cost as much as one object

# JobSpecs in one object: 100 µs each.
MOST_JOBS: Final = 1_000

# Levels of whole objects in an object that are judged with it: a TriggerTemplate with an AppWrapper with a Job has 2.
# What stands deeper is judged when it is created.
DEEPEST_EMBEDDED: Final = 2

# Characters of the annotation `policy`: half of what all annotations may have. What is injected into a JobSet of 100
# replicated Jobs, each with two containers, a time limit and annotations handed down, has 92,000, in 530 operations.
MAX_RECORD: Final = 128 * 1024
MOST_INJECTED: Final = 3_000  # more than fit into it
DEEPEST_INJECTED: Final = 16  # levels of one value of ours; a podFailurePolicy has 6
MAX_POINTER: Final = 1_024  # characters of the path of an operation of ours

# Problems that are looked for in one object, and those of them that are listed. Nobody reads more.
MOST_PROBLEMS: Final = 1_000
LISTED_PROBLEMS: Final = 100
MAX_PROBLEM: Final = 1_000  # characters of one problem
MAX_MESSAGE: Final = 32 * 1024  # characters of all that are listed
LISTED_NAMES: Final = 10  # that would be right, in one problem

# Retries that any profile may allow.
MOST_RETRIES: Final = 10

# The policy: a profile with all its fields has 1 KiB.
MAX_POLICY: Final = 256 * 1024  # characters
MOST_POLICY_EVENTS: Final = 20_000  # of its YAML: scalars, and beginnings and ends of lists and objects
MOST_PROFILES: Final = 200
