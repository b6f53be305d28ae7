"""Valid and invalid objects, for comparisons with a real API server."""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from tests.objects import container_of
from webhook.kube import names

Strategy = st.SearchStrategy[Any]


def examples(number: int) -> settings:
    """Return the settings that draw so many examples in `make test-long`, and a tenth of them in `make test`.

    `make test` draws the same ones each time, so a tenth is enough: they fail only because of the change under test.
    """
    return settings(max_examples=number // 10 if settings().derandomize else number)


def maybe(strategy: Strategy) -> Strategy:
    return st.none() | strategy


def mostly(valid: Strategy, nearly: Strategy) -> Strategy:
    """Nineteen values of twenty are valid, so that an object of many parts is rejected because of a single one."""
    return st.integers(0, 19).flatmap(lambda one: valid if one else nearly)


def record(required: dict[str, Strategy], **optional: Strategy) -> Strategy:
    return st.fixed_dictionaries(required, optional=optional)


# Values whose type fits none of these fields.
HOSTILE: Strategy = st.sampled_from(
    [None, True, 1.5, "", "x", 7, -1, 2**31, 2**63, [], {}, [None], ["x"], {"x": 1}, [[]]]
)

LONG_NAME = "a" * 63
ACTIONS = mostly(st.sampled_from(["Count", "FailIndex", "FailJob", "Ignore"]), HOSTILE | st.just("failjob"))
OPERATORS = mostly(st.sampled_from(["In", "NotIn"]), HOSTILE | st.sampled_from(["in", "Exists"]))
CODES = st.integers(0, 6) | st.sampled_from([-1, 137, 143, 255, 256, 2**31 - 1, -(2**31), 2**31])
VALUES = mostly(
    st.sets(st.integers(0, 255), min_size=1, max_size=5).map(sorted),
    st.lists(CODES, max_size=5)
    | st.integers(254, 257).map(lambda number: list(range(1, number)))
    | st.lists(HOSTILE, max_size=2)
    | HOSTILE,
)
TYPES = mostly(
    st.sampled_from(["DisruptionTarget", "ConfigIssue", "example.com/Broken", f"{'a' * 63}.b/{LONG_NAME}"]),
    HOSTILE
    | st.sampled_from(["a/b/c", "/b", "a/", "Example.com/b", f"{LONG_NAME}a", "-a", "a-", "a b", "a..b/c", "a_b/c"])
    | st.text(max_size=5),
)
STATUSES = mostly(st.sampled_from(["True", "False", "Unknown", ""]), HOSTILE | st.just("true"))
PATTERNS = mostly(
    st.lists(record({"type": TYPES}, status=STATUSES), min_size=1, max_size=3),
    st.lists(record({}, type=TYPES, status=STATUSES), max_size=2)
    | st.integers(19, 22).map(lambda number: [{"type": f"T{index}"} for index in range(number)])
    | HOSTILE,
)
ON_EXIT_CODES = mostly(
    record({"operator": OPERATORS, "values": VALUES}, containerName=st.sampled_from(["main", "proxy", "absent"])),
    record({}, operator=OPERATORS, values=VALUES, containerName=HOSTILE) | HOSTILE,
)
RULES = mostly(
    record({"action": ACTIONS, "onExitCodes": ON_EXIT_CODES})
    | record({"action": ACTIONS, "onPodConditions": PATTERNS}),
    record({}, action=ACTIONS, onExitCodes=ON_EXIT_CODES, onPodConditions=PATTERNS, unknown=HOSTILE) | HOSTILE,
)
MANY_RULES = st.integers(19, 22).flatmap(
    lambda number: st.lists(RULES, min_size=1, max_size=2).map(lambda rules: (rules * number)[:number])
)
POLICIES = mostly(
    record({"rules": st.lists(RULES, max_size=4)}), record({}, rules=MANY_RULES | HOSTILE, unknown=HOSTILE) | HOSTILE
)

CONTAINERS = st.lists(
    st.sampled_from(["main", "log", "proxy"]).map(container_of),
    min_size=1,
    max_size=3,
    unique_by=lambda one: one["name"],
)
INIT_CONTAINERS = st.lists(
    st.sampled_from(["fetch", "ship"]).map(
        lambda name: {**container_of(name), **({"restartPolicy": "Always"} if name == "ship" else {})}
    ),
    max_size=2,
    unique_by=lambda one: one["name"],
)


@st.composite
def judged_jobs(draw: st.DrawFn) -> Any:
    """Jobs that are valid, nearly valid or hostile in the fields that the schema rule checks, and valid elsewhere."""
    spec: dict[str, Any] = {}
    if policy := draw(record({}, podFailurePolicy=POLICIES)):
        spec |= policy
    spec |= draw(
        record(
            {},
            podReplacementPolicy=mostly(
                st.sampled_from(["Failed", "TerminatingOrFailed"]), HOSTILE | st.just("failed")
            ),
        )
    )
    if draw(st.booleans()):
        spec |= {"completionMode": "Indexed", "completions": 3, "parallelism": 3}
        spec |= draw(record({}, backoffLimitPerIndex=st.sampled_from([0, 1, 5])))
    valid = st.sampled_from(["Never", "OnFailure"])
    judged = spec.get("podFailurePolicy") is not None  # otherwise another rule checks restartPolicy
    restart_policy = mostly(valid, HOSTILE | st.sampled_from(["Always", "never"])) if judged else valid
    pod_spec = {"containers": draw(CONTAINERS), "restartPolicy": draw(restart_policy)}
    if draw(st.booleans()):
        pod_spec["initContainers"] = draw(INIT_CONTAINERS)
    if judged and draw(st.integers(0, 20)) == 0:
        del pod_spec["restartPolicy"]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "generated"},
        "spec": {**spec, "template": {"spec": pod_spec}},
    }


ANNOTATIONS = st.dictionaries(
    st.sampled_from([names.MAX_RETRIES, names.SKIP, names.INTERRUPTIBLE, names.MAX_DISRUPTIONS, "example.test/own"]),
    mostly(st.sampled_from(["0", "3", "10", "true", "false"]), st.sampled_from(["11", "nonsense", ""])),
    max_size=2,
)
LABELS = st.dictionaries(st.sampled_from(["team", "kueue.x-k8s.io/queue-name"]), st.just("a"), max_size=2)
# Not 6, which in a stored object cannot be distinguished from the API's default:
# docs/explanation/what-happens-to-a-job.md.
COUNTS = mostly(st.integers(0, 10), st.integers(-1, 40)).filter(lambda count: count != 6)
EXPRESSIONS = mostly(
    st.sampled_from(
        [
            {"key": "cloud.google.com/gke-spot", "operator": "In", "values": ["true"]},
            {"key": "cloud.google.com/gke-spot", "operator": "DoesNotExist"},
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a", "b"]},
        ]
    ),
    st.just({"key": "topology.kubernetes.io/zone", "operator": "In"}),
)
TERMS = st.lists(record({}, matchExpressions=st.lists(EXPRESSIONS, max_size=2)), min_size=1, max_size=3)
AFFINITIES = record(
    {},
    nodeAffinity=record(
        {},
        requiredDuringSchedulingIgnoredDuringExecution=record({"nodeSelectorTerms": TERMS}),
        preferredDuringSchedulingIgnoredDuringExecution=st.just(
            [{"weight": 5, "preference": {"matchExpressions": [{"key": "fast", "operator": "Exists"}]}}]
        ),
    ),
)
TOLERATIONS = st.lists(
    st.sampled_from(
        [
            {"operator": "Exists"},
            {"key": "cloud.google.com/gke-spot", "operator": "Equal", "value": "true", "effect": "NoSchedule"},
            {"key": "own", "operator": "Exists"},
        ]
    ),
    max_size=2,
)
PLAIN_VALUES = st.sets(st.integers(1, 255), min_size=1, max_size=4).map(sorted)
PLAIN_RULES = st.lists(
    record(
        {
            "action": st.sampled_from(["Count", "FailJob", "Ignore"]),
            "onExitCodes": record(
                {"operator": st.sampled_from(["In", "NotIn"]), "values": PLAIN_VALUES}, containerName=st.just("main")
            ),
        }
    )
    | record(
        {
            "action": st.sampled_from(["Count", "FailJob", "Ignore"]),
            "onPodConditions": st.lists(
                record(
                    {"type": st.sampled_from(["DisruptionTarget", "Other"])}, status=st.sampled_from(["True", "False"])
                ),
                min_size=1,
                max_size=2,
            ),
        }
    ),
    max_size=3,
)


@st.composite
def pod_specs(draw: st.DrawFn, restart_policies: Strategy) -> Any:
    """Pod specs with all fields that the rules read; without a token, whose volume has another name each time."""
    return {
        "automountServiceAccountToken": False,
        "containers": [container_of("main"), *(one for one in draw(CONTAINERS) if one["name"] != "main")],
        **draw(
            record(
                {},
                restartPolicy=restart_policies,
                initContainers=INIT_CONTAINERS,
                affinity=AFFINITIES,
                tolerations=TOLERATIONS,
                nodeSelector=st.sampled_from([{"cloud.google.com/gke-spot": "true"}, {"disk": "ssd"}]),
                activeDeadlineSeconds=mostly(st.integers(1, 900), st.just(0)),
                terminationGracePeriodSeconds=st.integers(0, 90),
            )
        ),
    }


@st.composite
def job_specs(draw: st.DrawFn) -> Any:
    """JobSpecs of all forms, most of them valid."""
    never = st.sampled_from(["Never", "Never", "Never", "OnFailure"])
    template: dict[str, Any] = {
        "metadata": draw(record({}, annotations=ANNOTATIONS, labels=LABELS)),
        "spec": {"restartPolicy": draw(never), **draw(pod_specs(never))},
    }
    form: dict[str, Any] = draw(
        st.sampled_from(
            [
                {},
                {"completions": 3, "parallelism": 2},
                {"parallelism": 2},
                {"completionMode": "Indexed", "completions": 4, "parallelism": 4},
                {"completionMode": "Indexed", "completions": 4, "parallelism": 2, "backoffLimitPerIndex": 2},
                {
                    "completionMode": "Indexed",
                    "completions": 2,
                    "parallelism": 2,
                    "successPolicy": {"rules": [{"succeededIndexes": "0"}]},
                },
            ]
        )
    )
    return {
        **form,
        **draw(
            record(
                {},
                backoffLimit=COUNTS,
                suspend=st.booleans(),
                podReplacementPolicy=st.sampled_from(["Failed", "TerminatingOrFailed"]),
                podFailurePolicy=record({"rules": PLAIN_RULES}) | POLICIES,
                activeDeadlineSeconds=st.integers(1, 900),
                ttlSecondsAfterFinished=st.integers(0, 900),
                managedBy=st.sampled_from(["kubernetes.io/job-controller", "example.com/other"]),
            )
        ),
        "template": template,
    }


def metadata(name: str) -> Strategy:
    return record({"name": st.just(name)}, annotations=ANNOTATIONS, labels=LABELS)


JOBS = st.builds(
    lambda metadata, spec: {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec},
    metadata("generated"),
    job_specs(),
)
CRON_JOBS = st.builds(
    lambda metadata, template, spec: {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": metadata,
        "spec": {"schedule": "0 3 * * *", "jobTemplate": {"metadata": template, "spec": spec}},
    },
    metadata("generated"),
    record({}, annotations=ANNOTATIONS, labels=LABELS),
    job_specs(),
)
POD_ANNOTATIONS = st.dictionaries(
    st.sampled_from([names.ATTEMPT, names.MAX_RETRIES, names.INTERRUPTIBLE, "example.test/own"]),
    mostly(st.sampled_from(["0", "1", "3", "true", "false"]), st.sampled_from(["-1", "nonsense"])),
    max_size=3,
)
PODS = st.builds(
    lambda metadata, spec: {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec},
    record({"name": st.just("generated")}, annotations=POD_ANNOTATIONS, labels=LABELS),
    pod_specs(st.sampled_from(["Never", "OnFailure", "Always"])),
)
