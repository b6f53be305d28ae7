"""Properties of all objects, tested on generated ones."""

import contextlib
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import jsonpatch
import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests.admission import mutate, policy, review_of, validate
from tests.objects import cron_job, job, pod, stored_job
from tests.strategies import CONTAINERS, examples, maybe
from webhook.admission import engine, review
from webhook.admission.subject import read, subject_of
from webhook.kube import names
from webhook.objects.patch import Editor
from webhook.objects.problem import Json
from webhook.objects.shape import ANY_KEY, Shape
from webhook.policy.model import BackOff, FailurePolicy, Placement, Policy, Profile, Retries
from webhook.rules.facts import Facts
from webhook.systems.kind_spec import KindSpec
from webhook.systems.kinds import KINDS

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**40), 2**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
)
ANYTHING = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
)


COUNTS = st.integers(0, 40)
RULES = st.lists(
    st.fixed_dictionaries(
        {"action": st.sampled_from(["Count", "FailIndex", "FailJob", "Ignore"])},
        optional={
            "onExitCodes": st.fixed_dictionaries(
                {"operator": st.sampled_from(["In", "NotIn"]), "values": st.lists(st.integers(1, 255), max_size=4)},
                optional={"containerName": st.sampled_from(["main", "log", "absent"])},
            ),
            "onPodConditions": st.lists(
                st.fixed_dictionaries(
                    {"type": st.sampled_from(["DisruptionTarget", "Other"])},
                    optional={"status": st.sampled_from(["True", "False"])},
                ),
                max_size=2,
            ),
        },
    ),
    max_size=22,
)
PLACING = policy(default=Profile(placement=Placement(provider="gke", spot="Require")))
ANNOTATIONS = st.dictionaries(
    st.sampled_from([names.MAX_RETRIES, names.SKIP, names.INTERRUPTIBLE, names.ATTEMPT, "example.test/own"]),
    st.sampled_from(["0", "3", "11", "true", "false", "nonsense", ""]),
    max_size=3,
)
METADATA = st.fixed_dictionaries(
    {"name": st.just("train"), "example.test": ANYTHING}, optional={"annotations": maybe(ANNOTATIONS)}
)
JOB_SPECS = st.fixed_dictionaries(
    {
        "template": st.fixed_dictionaries(
            {
                "spec": st.fixed_dictionaries(
                    {"containers": CONTAINERS, "restartPolicy": st.sampled_from(["Never", "OnFailure"])},
                    optional={"activeDeadlineSeconds": maybe(COUNTS)},
                )
            },
            optional={"metadata": maybe(st.fixed_dictionaries({"annotations": maybe(ANNOTATIONS)}))},
        ),
        "example.test": ANYTHING,
    },
    optional={
        "backoffLimit": maybe(COUNTS),
        "backoffLimitPerIndex": maybe(COUNTS),
        "maxFailedIndexes": maybe(COUNTS),
        "completions": maybe(COUNTS),
        "parallelism": maybe(COUNTS),
        "completionMode": st.sampled_from(["Indexed", "NonIndexed"]),
        "podReplacementPolicy": maybe(st.sampled_from(["Failed", "TerminatingOrFailed"])),
        "suspend": maybe(st.booleans()),
        "podFailurePolicy": maybe(st.fixed_dictionaries({}, optional={"rules": maybe(RULES)})),
    },
)
JOBS = st.builds(lambda metadata, spec: {**job(spec), "metadata": metadata}, METADATA, JOB_SPECS)
CRON_JOBS = st.builds(
    lambda metadata, spec, template: {**cron_job(spec, template), "metadata": metadata}, METADATA, JOB_SPECS, METADATA
)
DEEP = 5  # levels of a shape that are filled; some shapes contain themselves


def shaped(shape: Shape, key: str = "", depth: int = 0) -> st.SearchStrategy[Any]:
    """Values with the types of a shape, and with an additional unknown field."""
    if key == "annotations":
        return ANNOTATIONS
    match shape:
        case tuple():
            return st.one_of(*(shaped(one) for one in shape))
        case list():
            return st.lists(shaped(shape[0], depth=depth), max_size=2)
        case dict() if ANY_KEY in shape:
            return st.dictionaries(st.sampled_from(["a", "b"]), shaped(shape[ANY_KEY], depth=depth + 1), max_size=2)
        case dict():
            inner = shape.items() if depth < DEEP else ()
            fields = {key: maybe(shaped(one, key, depth + 1)) for key, one in inner}
            return st.fixed_dictionaries({}, optional={**fields, "example.test": ANYTHING})
    return {
        str: st.sampled_from(["Never", "OnFailure", "Always", "InPlaceRestart", "4", "{{x}}", ""]),
        int: st.integers(-2, 40) | st.just(2147483647),
        bool: st.booleans(),
    }[shape]


def objects_of(kind: KindSpec) -> st.SearchStrategy[Json]:
    assert isinstance(kind.shape, dict)
    parts = {key: shaped(shape, key) for key, shape in kind.shape.items() if key != "metadata"}
    return st.builds(
        lambda metadata, rest: {
            "apiVersion": f"{kind.group}/{kind.versions[0]}",
            "kind": kind.kind,
            "metadata": metadata,
            **rest,
        },
        METADATA,
        st.fixed_dictionaries({"spec": st.just({}), **parts}),
    )


OTHER_ROWS = [row for row in KINDS.values() if row.admitted and row.group != "batch"]
OTHER_KINDS = st.one_of(*(objects_of(row) for row in OTHER_ROWS))
IMMUTABLE_KINDS = st.one_of(*(objects_of(row) for row in OTHER_ROWS if row.immutable))

EXPRESSIONS = st.fixed_dictionaries(
    {
        "key": st.sampled_from(["cloud.google.com/gke-spot", "topology.kubernetes.io/zone"]),
        "operator": st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]),
    },
    optional={"values": st.lists(st.sampled_from(["true", "a"]), max_size=2)},
)
TERMS = st.lists(
    st.fixed_dictionaries({}, optional={"matchExpressions": st.lists(EXPRESSIONS, max_size=2)}), max_size=3
)
PODS = st.builds(
    lambda spec, annotations, terms, extra: pod(
        {
            **spec,
            "affinity": {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}},
                "example.test": extra,
            },
        },
        annotations=annotations,
    ),
    st.fixed_dictionaries({}, optional={"nodeSelector": st.just({"cloud.google.com/gke-spot": "true"})}),
    ANNOTATIONS,
    TERMS,
    ANYTHING,
)
PROFILES = st.builds(
    Profile,
    retries=st.builds(Retries, limit=st.integers(0, 10), on_exceed=st.sampled_from(["Deny", "Clamp"])),
    failure_policy=st.builds(
        FailurePolicy,
        inject=st.sampled_from(["Merge", "IfAbsent", "Never"]),
        retriable_exit_codes=st.sets(st.integers(1, 255), max_size=5).map(tuple),
        coupled=st.sampled_from(["FailJob", "Retry", "Settle"]),
        on_failure_restart_policy=st.sampled_from(["Keep", "Never"]),
        many_pods=st.sampled_from(["Job", "Auto", "Index"]),
    ),
    back_off=st.builds(BackOff, per_index=st.booleans(), single_pod=st.sampled_from(["Keep", "Indexed"])),
    placement=st.builds(
        Placement,
        provider=st.sampled_from(["gke", "aks", "any", "auto"]),
        spot=st.sampled_from(["Require", "Prefer", "Allow"]),
        interruptible_failure_threshold=st.integers(-4, 4),
    ),
)
POLICIES = PROFILES.map(lambda profile: policy(default=profile))
FACTS = st.builds(
    lambda failed, disruptions: Facts(
        profile_name="default", owner=stored_job(status={"failed": failed}), disruptions=disruptions
    ),
    st.integers(0, 9),
    maybe(st.integers(0, 9)),
)


@given(JOBS | CRON_JOBS | PODS | OTHER_KINDS, POLICIES, FACTS)
@examples(500)
def test_admitting_an_object_twice_changes_nothing_more(root: Json, under: Policy, facts: Facts) -> None:
    once = mutate(root, facts, under).object
    assert mutate(once, facts, under).patch == []


@given(JOBS | CRON_JOBS | PODS | OTHER_KINDS, POLICIES, FACTS)
@examples(500)
def test_unknown_fields_are_kept(root: Json, under: Policy, facts: Facts) -> None:
    before = deepcopy(root)
    after = mutate(root, facts, under).object

    assert list(unknown(after, ())) == list(unknown(before, ()))


def unknown(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield every unknown field with its path."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "example.test":
                yield (*path, key), inner
            else:
                yield from unknown(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from unknown(inner, (*path, index))


@given(JOBS | IMMUTABLE_KINDS, POLICIES, POLICIES)
@examples(500)
def test_an_unchanged_manifest_is_restored_under_any_newer_policy(root: Json, under: Policy, later: Policy) -> None:
    stored = mutate(root, under=under).object
    metadata = {**stored["metadata"], **root["metadata"]}
    for field in ("annotations", "labels"):  # a map is merged key by key
        merged = {**(stored["metadata"].get(field) or {}), **(root["metadata"].get(field) or {})}
        if merged:
            metadata[field] = merged
    applied = {**deepcopy(root), "metadata": metadata}
    again = mutate(applied, under=later, old=stored).object
    assert {**again, "metadata": None} == {**stored, "metadata": None}


@given(JOBS | CRON_JOBS | OTHER_KINDS, POLICIES)
@examples(200)
def test_a_stored_object_can_always_be_labelled(root: Json, under: Policy) -> None:
    labelled = deepcopy(root)
    labelled["metadata"]["labels"] = {"team": "a"}
    stored = mutate(labelled, under=under, old=root).object
    assert validate(stored, under=under, old=root).allowed


def objects_of_any_shape() -> st.SearchStrategy[Json]:
    fields = ["metadata", "spec", "template", "jobTemplate", "podFailurePolicy", "rules", "containers", "annotations"]
    keys = st.sampled_from([*fields, "affinity", "nodeAffinity", "ownerReferences", "backoffLimit", "tolerations"])
    return st.dictionaries(
        keys,
        st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4)),
        max_size=4,
    )


@given(
    ANYTHING | objects_of_any_shape(),
    ANYTHING | objects_of_any_shape(),
    st.sampled_from(list(KINDS)),
    st.sampled_from(["CREATE", "UPDATE"]),
)
@examples(500)
def test_no_object_causes_an_uncaught_exception(root: Any, old: Any, kind: tuple[str, str], operation: str) -> None:
    request = {"kind": {"group": kind[0], "kind": kind[1]}, "operation": operation, "old": old}
    assert mutate(root, **request).allowed
    validate(root, **request)


@given(ANYTHING | objects_of_any_shape(), ANNOTATIONS, st.sampled_from([[], pod()["metadata"]["ownerReferences"]]))
@examples(500)
def test_a_partially_decoded_pod_gets_the_same_answer_as_a_completely_decoded_one(
    root: Any, annotations: Json, references: list[Json]
) -> None:
    if isinstance(root, dict) and isinstance(root.get("metadata"), dict):
        root["metadata"]["annotations"] = annotations
        root["metadata"]["ownerReferences"] = references
    body = review_of(root, kind={"group": "", "version": "v1", "kind": "Pod"}, operation="CREATE")
    answers = []
    for subject in (subject_of(read(body), body=body), subject_of(review.decode(body))):
        for rules in (engine.mutate, engine.validate):
            response = None if subject is None else rules(subject, PLACING, Facts(profile_name="default"))
            answers.append(None if response is None else review.encode("", response))
    assert answers[:2] == answers[2:]


@given(st.binary(max_size=200) | ANYTHING.map(msgspec.json.encode))
@examples(300)
def test_no_body_causes_an_exception_other_than_bad_review(body: bytes) -> None:
    with contextlib.suppress(review.BadReviewError):
        review.decode(body)


@given(ANYTHING)
@examples(200)
def test_objects_of_unknown_kinds_are_not_judged(root: Any) -> None:
    decoded = review.decode(review_of({"apiVersion": "x.test/v1", "kind": "Wonder", "spec": root}))
    assert subject_of(decoded) is None


@given(st.dictionaries(st.text(max_size=4), ANYTHING, max_size=4), st.data())
@examples(300)
def test_the_patch_gives_the_edited_object(root: Json, data: st.DataObject) -> None:
    before = deepcopy(root)
    editor = Editor(root)
    for _ in range(data.draw(st.integers(0, 6))):
        key = data.draw(st.text(max_size=4))
        value = data.draw(ANYTHING)
        match data.draw(st.sampled_from(["set", "update", "append", "insert", "remove"])):
            case "set":
                editor.set((key,), value)
            case "update" if isinstance(root.get(key), dict | None):
                editor.update((key,), data.draw(st.dictionaries(st.text(max_size=4), ANYTHING, max_size=3)))
            case "append" if isinstance(root.get(key), list | None):
                editor.append((key,), value)
            case "insert" if isinstance(root.get(key), list | None):
                editor.insert((key,), 0, value)
            case "remove":
                editor.remove((key,))
            case _:
                pass
    assert jsonpatch.apply_patch(before, msgspec.json.decode(editor.patch())) == root
