"""The cost of an admission, from bytes to answer, grows linearly with the object's size, for any shape.

By kind and list: four times as many entries cost at most five times as much. The worst shapes that were found, as large
as the API server stores them, cost at most three million lines (0.2 s) and 128 MiB. Hypothesis searches for shapes
that cost more.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from itertools import zip_longest
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given, settings, target
from hypothesis import strategies as st
from structlog.testing import capture_logs

from tests.admission import policy, review_of
from tests.costs import LEAST_LINES, MOST_GROWTH, assert_affordable, lines_of
from tests.hostile import LARGEST, ROWS, long_object, long_places
from tests.objects import exit_codes, job, job_spec, pod
from webhook.admission import engine
from webhook.admission.subject import LARGE, LARGE_POD, read
from webhook.kube import names
from webhook.objects import bounds
from webhook.objects.problem import Json
from webhook.policy.model import FailurePolicy, Placement, Profile
from webhook.serving.endpoints import Endpoints
from webhook.serving.server import HttpResponse
from webhook.systems import core
from webhook.systems.kind_spec import KindSpec
from webhook.tracking.policy_source import PolicySource

UNDER: Final = policy(
    default=Profile(
        failure_policy=FailurePolicy(coupled="FailJob"), placement=Placement(provider="gke", spot="Require")
    )
)
ENDPOINTS: Final = Endpoints(PolicySource(UNDER), None)
LOOP: Final = asyncio.Runner()  # one for all answers: a new one executes a thousand lines, whatever the object's size
FEW: Final = 20  # entries, compared with four times as many
MOST: Final = 3_000_000  # lines
KINDS: Final = {repr(row.shape): row for row in ROWS}.values()  # those with the same shape are read by the same code


def answered(rules: Any, body: bytes) -> HttpResponse:
    with capture_logs():
        answer = LOOP.run(ENDPOINTS.answer(body, "mutate", read, partial(ENDPOINTS.judge, rules)))
    assert answer.status in {200, 400}
    return answer


def both(bodies: list[bytes]) -> None:
    for body in bodies:
        answered(engine.mutate, body)
        answered(engine.validate, body)


def requests_of(root: Any) -> list[bytes]:
    """Return the requests for a creation and for an update of an object."""
    return [review_of(root), review_of(root, old=root)]


def padded(root: Json) -> Json:
    """Return an object of so many bytes that its parts are counted, in place."""
    annotations = root["metadata"].setdefault("annotations", {})
    annotations["example.test/large"] = "x" * (LARGE_POD if root["kind"] == core.POD.kind else LARGE)
    return root


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_the_cost_of_each_list_of_a_kind_grows_linearly(kind: KindSpec) -> None:
    found = {place: growth_of(partial(long_object, kind, place)) for place in long_places(kind.shape)}
    assert {place: growth for place, growth in found.items() if growth > MOST_GROWTH} == {}


def growth_of(made: Callable[[int], Json]) -> float:
    """Return the growth of the lines that are executed when entries grow fourfold."""
    few, many = requests_of(padded(made(FEW))), requests_of(padded(made(4 * FEW)))
    both(few)  # so that caches are filled
    return lines_of(lambda: both(many)) / max(lines_of(lambda: both(few)), LEAST_LINES)


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_the_cost_is_never_the_product_of_two_lists(data: st.DataObject) -> None:
    row = data.draw(st.sampled_from(ROWS))
    places = data.draw(st.lists(st.sampled_from(list(long_places(row.shape))), min_size=2, max_size=2))
    empty = data.draw(st.booleans())

    def made(number: int) -> Json:
        first, second = (long_object(row, place, number, empty=empty) for place in places)
        found: Json = merged(first, second)
        return found

    growth = growth_of(made)
    target(growth)
    assert growth <= MOST_GROWTH


def merged(one: Any, other: Any) -> Any:
    """Return the union of two objects; each list is as long as in either of them."""
    if isinstance(one, dict) and isinstance(other, dict):
        return {key: merged(one.get(key), other.get(key)) for key in one | other}
    if isinstance(one, list) and isinstance(other, list):
        return [merged(*pair) for pair in zip_longest(one, other)]
    return other if one is None else one


def times(entry: Any, size: int = LARGEST) -> list[Any]:
    """Return as many copies of an entry as have `size` bytes of JSON."""
    return [entry] * (size // (len(msgspec.json.encode(entry)) + 1))


def job_set(*jobs: Json, **metadata: Any) -> Json:
    replicated = [{"name": f"job-{index}", "template": {"spec": spec}} for index, spec in enumerate(jobs)]
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "train", **metadata},
        "spec": {"replicatedJobs": replicated},
    }


def workflow(**spec: Any) -> Json:
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {"name": "train"},
        "spec": spec,
    }


def app_wrapper(*objects: Any) -> Json:
    return {
        "apiVersion": "workload.codeflare.dev/v1beta2",
        "kind": "AppWrapper",
        "metadata": {"name": "a"},
        "spec": {"components": [{"template": one} for one in objects]},
    }


def app_wrapper_in_app_wrappers() -> Json:
    root = app_wrapper(*[job(job_spec(backoffLimit=11))] * 100)
    for _ in range(200):
        root = app_wrapper(root)
    return root


def missing_containers() -> Json:
    """Return a Job with 12,000 rules for a container that does not exist, and as many containers."""
    containers = tuple({"name": f"container-{index}", "image": "x"} for index in range(12_000))
    rules = [exit_codes("FailJob", "In", 1, container=f"missing-{index}") for index in range(12_000)]
    return job(job_spec(containers=containers, rules=rules))


def twenty_long_rules() -> Json:
    return job_spec(rules=[exit_codes("Count", "NotIn", *range(1, 256), container="main") for _ in range(20)])


def recorded(text: str) -> Json:
    return job(annotations={names.POLICY: text})


def operations(entry: Json, size: int) -> str:
    return msgspec.json.encode({"profile": "default", "injected": times(entry, size)}).decode()


def terms(number: int) -> Json:
    expressions = [{"key": "cloud.google.com/gke-spot", "operator": "NotIn", "values": ["false"]}]
    required = {"nodeSelectorTerms": [{"matchExpressions": expressions} for _ in range(number)]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return pod({"affinity": affinity}, owner=None, annotations={names.ATTEMPT: "9"})


def pod_of_workflow(**metadata: Any) -> Json:
    reference = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": "a", "uid": "u", "controller": True}
    return pod(owner=None, ownerReferences=[reference], **metadata)


def nested(depth: int) -> Any:
    """Return nested lists of this depth."""
    return msgspec.json.decode(b"[" * depth + b"]" * depth)


INJECTED: Final = {"op": "add", "path": "/spec/backoffLimit", "now": 3}
ANNOTATIONS: Final = {names.MAX_RETRIES: "2", names.INTERRUPTIBLE: "true"}
MANY: Final = {f"example.test/{index}": "" for index in range(20_000)}
UNKNOWN: Final = {f"{names.PREFIX}max-retrys-{'interuptible' * 4}-{index}": "" for index in range(1000)}
PIPELINE_RUN: Final = {"apiVersion": "tekton.dev/v1", "kind": "PipelineRun", "metadata": {"name": "a"}}
TORCH: Final = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "a"}}

WORST: Final[dict[str, Callable[[], Json]]] = {
    "two rules with 40,000 exit codes": lambda: job_set(
        job_spec(rules=[exit_codes("FailJob", "NotIn", *range(1, 40_001)) for _ in range(2)])
    ),
    "12,000 rules that name missing containers": missing_containers,
    "20 rules with 255 exit codes in each of many Jobs": lambda: job_set(*times(twenty_long_rules())),
    "a million exit codes": lambda: job(job_spec(rules=[exit_codes("FailJob", "NotIn", *times(1))])),
    "a million rules": lambda: job(job_spec(rules=times({}))),
    "a million conditions": lambda: job(job_spec(rules=[{"action": "Count", "onPodConditions": times({})}])),
    "conditions with nearly qualified names": lambda: job_set(
        *times(job_spec(rules=[{"action": "Count", "onPodConditions": [{"type": "a" * 252 + "_/a"}] * 20}] * 20))
    ),
    "a million containers": lambda: job(job_spec(containers=tuple(times({})))),
    "containers that are numbers": lambda: job(job_spec(containers=tuple(times(7)))),
    "a list of empty Jobs": lambda: job_set() | {"spec": {"replicatedJobs": times({"template": {"spec": {}}})}},
    "the most Jobs": lambda: job_set(*times(job_spec(), 1000 * 100)),
    "annotations of ours beside many, for each of many Jobs": lambda: job_set(
        *[job_spec()] * bounds.MOST_JOBS, annotations=ANNOTATIONS | MANY
    ),
    "unknown keys of ours, for each of many Jobs": lambda: job_set(
        *[job_spec(pod_annotations=UNKNOWN)] * 40, annotations=UNKNOWN
    ),
    "the most Jobs in an AppWrapper": lambda: app_wrapper(*times(job(job_spec()), 1000 * 100)),
    "the most JobSets in an AppWrapper, each wrong": lambda: app_wrapper(
        *[job_set(*[job_spec(backoffLimit=11)] * 10)] * 40
    ),
    "a million objects in an AppWrapper": lambda: app_wrapper(*times({"apiVersion": "batch/v1", "kind": "Job"})),
    "AppWrappers in AppWrappers": app_wrapper_in_app_wrappers,
    "a large Workflow in an AppWrapper": lambda: app_wrapper(
        workflow(templates=[{}] * (bounds.MOST_ENTRIES // 2 - 10))
    ),
    "a million templates": lambda: workflow(templates=times({})),
    "the most templates": lambda: workflow(templates=[{}] * bounds.MOST_ENTRIES),
    "the most steps": lambda: workflow(templates=[{"steps": [[{"inline": {}}]] * (bounds.MOST_ENTRIES // 2)}]),
    "a million objects in a field that no rule reads": lambda: workflow(arguments=times({"": 0})),
    "numbers in a field that no rule reads": lambda: workflow(arguments=times(1.5)),
    "deeply nested lists": lambda: workflow(arguments=nested(900)),
    "a key of three million characters": lambda: {**TORCH, "spec": {"pytorchReplicaSpecs": {"x" * LARGEST: {}}}},
    "runs of tasks": lambda: {**PIPELINE_RUN, "spec": {"taskRunSpecs": times({})}},
    "a long record of injected fields": lambda: recorded(operations(INJECTED, LARGEST)),
    "the longest record of injected fields": lambda: recorded(operations(INJECTED, bounds.MAX_RECORD - 1000)),
    "a record that is nested": lambda: recorded('{"profile":"a","injected":[{"op":"","path":"","now":' + "[" * 900),
    "a million node selector terms": lambda: terms(LARGEST // 100),
    "the most node selector terms": lambda: terms(bounds.MOST_ENTRIES // 2),
    "a node name with a million retries": lambda: pod_of_workflow(
        annotations={"workflows.argoproj.io/node-name": "(1)" * (LARGEST // 3)}
    ),
    "a manifest in an annotation": lambda: job(
        job_spec(backoffLimit=6),
        annotations={"kubectl.kubernetes.io/last-applied-configuration": "[" + '{"":0},' * (LARGEST // 7) + "0]"},
    ),
}


@pytest.mark.parametrize("made", WORST.values(), ids=WORST)
def test_the_most_expensive_objects_that_can_be_stored_are_affordable(made: Callable[[], Json]) -> None:
    created, updated = requests_of(made())
    both([created])
    assert_affordable(partial(answered, engine.validate, updated), lines=MOST)
