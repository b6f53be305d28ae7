"""Behaviour that is the same for every kind, and for each of its retry fields."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from tests.admission import mutate, of_ours, policy, validate
from tests.objects import job_spec
from webhook.kube import names
from webhook.objects.patch import EVERY, Nested, Pattern, at
from webhook.objects.problem import Json, Path, field
from webhook.objects.shape import ANY_KEY, Shape, wrong_types
from webhook.policy.model import Duration, Policy, Profile, Retries
from webhook.systems.kind_spec import Field, KindSpec, RetryField
from webhook.systems.kinds import KINDS, full_name

ADMITTED = [kind for kind in KINDS.values() if kind.admitted]
RETRY_FIELDS = [(kind, one) for kind in ADMITTED for one in kind.retry_fields]
WITH_JOBS = [kind for kind in ADMITTED if kind.job_specs]
CLAMPING = policy(default=Profile(retries=Retries(on_exceed="Clamp")))
NO_MORE = "profile 'default' allows no more"
TIMED = policy(default=Profile(attempt_timeout=Duration(5400)))


def title(kind: KindSpec) -> str:
    return f"{kind.kind}.{kind.group}"


def case_name(case: tuple[KindSpec, Field]) -> str:
    kind, one = case
    path = [part for part in (*one.within, *one.name) if not isinstance(part, Nested)]
    return f"{title(kind)} {field(tuple(path))}"


def empty(kind: KindSpec) -> Json:
    """Return an object of a kind without any optional field."""
    root: Json = {
        "apiVersion": f"{kind.group}/{kind.versions[0]}",
        "kind": kind.kind,
        "metadata": {"name": "one", "namespace": "ml"},
    }
    for pattern in kind.job_specs:
        put(root, kind.shape, pattern, job_spec(backoffLimit=3))
    return root


def put(root: Any, shape: Shape, pattern: Pattern, value: Any, *, nested: bool = False) -> Path:
    """Set a value at a pattern, with one entry in each list and map of it; return its path."""
    path: list[str | int] = []
    parts = list(pattern)
    while parts:
        part = parts.pop(0)
        if isinstance(part, Nested):
            parts = [*part.patterns[-1], *parts] if nested else parts
            nested = False
            continue
        key: str | int = part
        if isinstance(shape, list):
            key, shape = 0, shape[0]
            if not root:
                root.append({})
        elif isinstance(shape, dict):
            key = "one" if part == EVERY else part
            shape = shape[ANY_KEY] if part == EVERY else shape.get(str(part), {})
        path.append(key)
        if not parts:
            root[key] = value
        elif isinstance(root, dict):
            root = root.setdefault(key, [] if isinstance(shape, list) else {})
        else:
            root[key] = root[key] or ([] if isinstance(shape, list) else {})
            root = root[key]
    return tuple(path)


def written(one: RetryField, number: Any) -> Any:
    """Return the value of a field that means a number of retries."""
    return str(number) if one.text and number is not None else number


def retries_at(kind: KindSpec, root: Json, path: Path) -> Any:
    """Return the value of a retry field, without the runs that it allows only after disruptions."""
    value = at(root, path)
    disruptions = sum(budget.disruptions for budget in kind.budgets(root) if budget.path == path)
    return type(value)(int(value) - disruptions) if disruptions else value


def with_retries(kind: KindSpec, one: RetryField, value: Any, *, nested: bool = False) -> tuple[Json, Path]:
    """Return an object whose retry field has a value, and the field's path."""
    root = empty(kind)
    path = put(root, kind.shape, (*one.within, *one.name), written(one, value), nested=nested)
    if one.counts_with is not None:
        name, counting = one.counts_with
        at(root, path[:-1])[name] = counting
    assert list(wrong_types(root, kind.shape)) == []
    return root, path


@pytest.mark.parametrize("case", RETRY_FIELDS, ids=case_name)
def test_ten_retries_are_admitted_and_eleven_denied(case: tuple[KindSpec, RetryField]) -> None:
    kind, one = case
    accepted, _ = with_retries(kind, one, 10 + one.single)
    refused, path = with_retries(kind, one, 11 + one.single)
    assert validate(mutate(accepted).object).allowed
    answer = validate(mutate(refused).object)
    assert not answer.allowed
    assert answer.message.startswith(f"{field(path)}: 11 retries exceed the limit of 10 in profile 'default'")
    assert answer.message.endswith(f"set {10 + one.single} or less")


@pytest.mark.parametrize("case", RETRY_FIELDS, ids=case_name)
def test_too_many_retries_are_lowered_if_the_profile_clamps(case: tuple[KindSpec, RetryField]) -> None:
    kind, one = case
    root, path = with_retries(kind, one, 25)
    answer = mutate(root, under=CLAMPING)
    assert retries_at(kind, answer.object, path) == written(one, 10 + one.single)
    lowered = f"{field(path)}: 25 lowered to {10 + one.single}; {NO_MORE}"
    assert [warning for warning in answer.warnings if warning.startswith(field(path))] == [lowered]
    assert validate(answer.object, under=CLAMPING).allowed


@pytest.mark.parametrize(
    "case",
    [case for case in RETRY_FIELDS if any(isinstance(part, Nested) for part in case[1].within)],
    ids=case_name,
)
def test_retries_are_found_in_nested_objects_too(case: tuple[KindSpec, RetryField]) -> None:
    root, path = with_retries(*case, 25, nested=True)
    assert validate(root).message.startswith(field(path))


@pytest.mark.parametrize("case", [case for case in RETRY_FIELDS if case[1].absent is None], ids=case_name)
def test_the_default_replaces_unlimited_retries(case: tuple[KindSpec, RetryField]) -> None:
    root, path = with_retries(*case, None)
    assert not validate(root).allowed
    answer = mutate(root)
    assert retries_at(case[0], answer.object, path) == written(case[1], 3 + case[1].single)
    assert validate(answer.object).allowed


@pytest.mark.parametrize(
    "case", [case for case in RETRY_FIELDS if case[1].absent is not None and case[1].single == 0], ids=case_name
)
def test_the_default_does_not_raise_an_absent_field_that_is_limited(case: tuple[KindSpec, RetryField]) -> None:
    root, path = with_retries(*case, None)
    assert at(mutate(root).object, path) is None


@pytest.mark.parametrize("case", [case for case in RETRY_FIELDS if case[1].negative_is_unlimited], ids=case_name)
def test_a_negative_number_is_unlimited_for_fields_with_that_meaning(case: tuple[KindSpec, RetryField]) -> None:
    root, path = with_retries(*case, -1)
    assert validate(root).message.startswith(f"{field(path)}: unlimited retries exceed the limit of 10")
    assert at(mutate(root, under=CLAMPING).object, path) == 10 + case[1].single


@pytest.mark.parametrize("case", RETRY_FIELDS, ids=case_name)
def test_max_retries_overrides_every_retry_field(case: tuple[KindSpec, RetryField]) -> None:
    kind, one = case
    root, path = with_retries(kind, one, 9)
    root["metadata"].setdefault("annotations", {})[names.MAX_RETRIES] = "2"
    assert retries_at(kind, mutate(root).object, path) == written(one, 2 + one.single)


@pytest.mark.parametrize("case", [case for case in RETRY_FIELDS if case[1].may_be_added], ids=case_name)
def test_max_retries_sets_a_field_that_is_left_out(case: tuple[KindSpec, RetryField]) -> None:
    kind, one = case
    root, path = with_retries(kind, one, None)
    root["metadata"].setdefault("annotations", {})[names.MAX_RETRIES] = "4"
    assert retries_at(kind, mutate(root).object, path) == written(one, 4 + one.single)


@pytest.mark.parametrize("kind", ADMITTED, ids=title)
def test_an_object_without_settings_is_admitted_twice_with_the_same_result(kind: KindSpec) -> None:
    once = mutate(empty(kind), under=TIMED).object
    assert mutate(once, under=TIMED).patch == []
    assert validate(once, under=TIMED).allowed


@pytest.mark.parametrize("case", RETRY_FIELDS, ids=case_name)
def test_applying_an_unchanged_manifest_changes_nothing(case: tuple[KindSpec, RetryField]) -> None:
    manifest, _ = with_retries(*case, 25)
    stored = mutate(deepcopy(manifest), under=CLAMPING).object
    applied = {**deepcopy(manifest), "metadata": stored["metadata"]}
    again = mutate(applied, under=CLAMPING, old=stored).object
    assert {**again, "metadata": None} == {**stored, "metadata": None}


@pytest.mark.parametrize("kind", [kind for kind in ADMITTED if kind.immutable and kind.kind != "Job"], ids=title)
def test_immutable_objects_are_not_edited_in_updates(kind: KindSpec) -> None:
    old, path = with_retries(kind, kind.retry_fields[0], 25)
    new = deepcopy(old)
    new["metadata"]["labels"] = {"a": "b"}
    assert mutate(new, under=CLAMPING, old=old).patch == []
    assert validate(new, old=old).allowed
    at(new, path[:-1])[path[-1]] = 26
    assert not validate(new, old=old).allowed


@pytest.mark.parametrize("kind", WITH_JOBS, ids=title)
def test_the_limit_applies_to_the_jobs_in_a_kind(kind: KindSpec) -> None:
    root = empty(kind)
    path = put(root, kind.shape, kind.job_specs[0], job_spec(backoffLimit=11))
    message = validate(root).message
    assert f"{field(path)}.backoffLimit: 11 retries exceed the limit of 10 in profile 'default'" in message


def annotations_for_pods(kind: KindSpec) -> Iterator[Pattern]:
    for template in kind.pod_templates:
        yield (*template, "metadata", "annotations")
    for spec in kind.job_specs:
        yield (*spec, "template", "metadata", "annotations")
    for one in kind.pod_annotations:
        yield (*one.within, *one.name)


@pytest.mark.parametrize("kind", [kind for kind in ADMITTED if any(annotations_for_pods(kind))], ids=title)
def test_annotations_of_an_author_are_copied_to_the_pods(kind: KindSpec) -> None:
    root = empty(kind)
    root["metadata"]["annotations"] = {names.INTERRUPTIBLE: "false"}
    paths = [put(root, kind.shape, pattern, {}) for pattern in annotations_for_pods(kind)]
    answer = mutate(root)
    assert [of_ours(at(answer.object, path)) for path in paths] == [{names.INTERRUPTIBLE: "false"}] * len(paths)


@pytest.mark.parametrize("kind", [kind for kind in ADMITTED if any(annotations_for_pods(kind))], ids=title)
def test_a_malformed_annotation_for_the_pods_is_reported_with_its_path(kind: KindSpec) -> None:
    root = empty(kind)
    pattern = next(annotations_for_pods(kind))
    path = put(root, kind.shape, pattern, {names.MAX_RETRIES: "many"})
    assert validate(root).message.startswith(f"{field(path)}[{names.MAX_RETRIES}]: is 'many'")


@pytest.mark.parametrize("kind", ADMITTED, ids=title)
def test_a_wrong_type_of_a_field_that_is_read_or_of_what_contains_it_is_denied_with_its_path(kind: KindSpec) -> None:
    fields = (*kind.retry_fields, *kind.timeout_fields, *kind.pod_annotations, *kind.made_annotations)
    patterns = [(*one.within, *one.name) for one in (*fields, *kind.judged_annotations)]
    for pattern in (*patterns, *kind.pod_templates, *kind.job_specs, *kind.embedded):
        for end in range(len(put(empty(kind), kind.shape, pattern, None))):
            root = empty(kind)
            path = put(root, kind.shape, pattern, None)[: end + 1]
            at(root, path[:-1])[path[-1]] = True
            assert validate(root).message.startswith(f"{field(path)}: is true or false; must be a")


@pytest.mark.parametrize("kind", [kind for kind in ADMITTED if kind.pod_templates], ids=title)
def test_a_container_that_restarts_in_place_has_unlimited_retries(kind: KindSpec) -> None:
    root = empty(kind)
    container = {"name": "main", "restartPolicy": "Always"}
    path = put(root, kind.shape, (*kind.pod_templates[0], "spec"), {"containers": [container]})
    assert f"{field(path)}.containers[0]: restarts the container in place" in validate(root).message
    clamped = mutate(root, under=CLAMPING).object
    assert at(clamped, (*path, "containers")) == [{"name": "main"}]


def timed(kind: KindSpec, under: Policy) -> list[Any]:
    """Return the time limits of attempts after admission, if the author left them out."""
    found = []
    for one in kind.timeout_fields:
        root = empty(kind)
        path = put(root, kind.shape, (*one.within, *one.name), None)
        if one.only_with:
            at(root, path[:-1])[min(one.only_with)] = {}
        found.append(at(mutate(root, under=under).object, path))
    return found


@pytest.mark.parametrize("kind", [kind for kind in ADMITTED if kind.timeout_fields], ids=title)
def test_each_attempt_gets_a_time_limit(kind: KindSpec) -> None:
    assert timed(kind, TIMED) == ["5400s" if one.duration else 5400 for one in kind.timeout_fields]
    assert timed(kind, policy()) == [None] * len(kind.timeout_fields)


MADE = [(kind, one) for kind in ADMITTED for one in kind.made_annotations]
JUDGED = [(kind, one) for kind in ADMITTED for one in kind.judged_annotations]


@pytest.mark.parametrize("case", MADE, ids=case_name)
def test_annotations_of_an_author_are_copied_to_the_workloads_that_are_created(case: tuple[KindSpec, Field]) -> None:
    kind, one = case
    root = empty(kind)
    said = {names.MAX_RETRIES: "2", names.SKIP: "false"}
    root["metadata"]["annotations"] = said
    path = put(root, kind.shape, (*one.within, *one.name), {})
    assert at(mutate(root).object, path) == said


@pytest.mark.parametrize("case", JUDGED, ids=case_name)
def test_a_malformed_annotation_for_some_pods_is_reported_with_its_path(case: tuple[KindSpec, Field]) -> None:
    kind, one = case
    root = empty(kind)
    path = put(root, kind.shape, (*one.within, *one.name), {names.MAX_RETRIES: "many"})
    assert f"{field(path)}[{names.MAX_RETRIES}]: is 'many'" in validate(mutate(root).object).message


def test_the_name_of_an_object_has_the_group_of_its_kind_if_two_kinds_share_a_name() -> None:
    assert full_name(KINDS["batch", "Job"], "ml", "train") == "ml/job/train"
    assert full_name(KINDS["batch.volcano.sh", "Job"], "ml", "train") == "ml/job.batch.volcano.sh/train"
    assert full_name(KINDS["argoproj.io", "ClusterWorkflowTemplate"], "", "build") == "clusterworkflowtemplate/build"
    words = [full_name(kind, "", "") for kind in KINDS.values()]
    assert len(words) == len(set(words))
