"""Injected values are removed again, except those that an author has changed."""

from copy import deepcopy
from typing import Any

import msgspec
import pytest

from tests.objects import job, job_spec
from webhook.kube import names
from webhook.objects import bounds
from webhook.objects.patch import Editor
from webhook.objects.problem import Json
from webhook.policy.applied import applied
from webhook.policy.model import Profile
from webhook.policy.settings import NamedProfile
from webhook.rules import undo
from webhook.rules.undo import Injected, Record
from webhook.systems.app_wrapper import APP_WRAPPER
from webhook.systems.job import spec as batch
from webhook.systems.kind_spec import KindSpec
from webhook.systems.kinds import KINDS

DEFAULT, STRICT = NamedProfile("default", Profile()), NamedProfile("strict", Profile())
POLICY: Json = {"rules": [{"action": "Ignore"}]}


def record_with(*injected: Injected) -> str:
    return msgspec.json.encode(Record("default", injected)).decode()


def undone(spec: Json, *injected: Injected) -> Json:
    """Return a Job's spec after these injected values were undone."""
    editor = Editor(job(deepcopy(spec)))
    undo.take_out(editor, batch.JOB, Record("default", injected))
    found: Json = editor.root["spec"]
    return found


def test_edits_are_recorded_so_that_they_can_be_undone() -> None:
    editor = Editor(job(job_spec(backoffLimit=6, activeDeadlineSeconds=5)))
    editor.set(("spec", "backoffLimit"), 3)
    editor.set(("spec", "podFailurePolicy"), POLICY)
    editor.remove(("spec", "activeDeadlineSeconds"))
    assert undo.write(editor, batch.JOB, STRICT, list(editor.edits)) == []
    record = undo.read(editor.root)
    assert record == Record(
        "strict",
        (
            Injected("replace", "/spec/backoffLimit", now=3, was=6),
            Injected("add", "/spec/podFailurePolicy", now=POLICY),
            Injected("remove", "/spec/activeDeadlineSeconds", was=5),
        ),
        applied=applied(Profile()),
        retriable_exit_codes=(143,),
    )


def test_recorded_edits_can_be_undone() -> None:
    before = job_spec(backoffLimit=6)
    editor = Editor(job(job_spec(backoffLimit=6)))
    editor.set(("spec", "backoffLimit"), 3)
    editor.set(("spec", "podFailurePolicy"), POLICY)
    undo.write(editor, batch.JOB, DEFAULT, list(editor.edits))
    record = undo.read(editor.root)
    assert record is not None
    undo.take_out(editor, batch.JOB, record)
    assert editor.root["spec"] == before


def test_metadata_is_recorded_only_for_a_kind_that_has_its_retries_there() -> None:
    for row, path in ((batch.JOB, []), (APP_WRAPPER, ["/metadata/annotations/x"])):
        editor = Editor(job())
        editor.set(("metadata", "annotations"), {"x": "1"})
        undo.write(editor, row, DEFAULT, list(editor.edits))
        record = undo.read(editor.root)
        assert record is not None
        assert [injected.path for injected in record.injected] == path


def test_edits_too_large_for_the_annotation_bring_a_warning_and_are_not_recorded() -> None:
    editor = Editor(job())
    editor.set(("spec", "podFailurePolicy"), {"rules": ["x" * bounds.MAX_RECORD]})
    (warning,) = undo.write(editor, batch.JOB, DEFAULT, list(editor.edits))
    assert "too many injected fields to record" in str(warning)
    record = undo.read(editor.root)
    assert record is not None
    assert record.injected == ()


def deep(levels: int) -> Any:
    """Return nested lists of this depth, with a number in the innermost."""
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        "[" * 100_000,
        '{"injected": []}',
        '{"profile": 1}',
        '{"profile": "p", "injected": [{"op": "add"}]}',
        record_with(Injected("add", "/spec/podFailurePolicy", now=deep(bounds.DEEPEST_INJECTED))),
        record_with(*[Injected("add", "/spec/a")] * (bounds.MOST_INJECTED + 1)),
        " " * (bounds.MAX_RECORD + 1),
    ],
)
def test_an_annotation_that_the_webhook_cannot_have_written_is_not_read(text: str) -> None:
    assert undo.read(job(annotations={names.POLICY: text})) is None


def test_the_deepest_value_that_can_be_recorded_is_read() -> None:
    text = record_with(Injected("add", "/spec/podFailurePolicy", now=deep(bounds.DEEPEST_INJECTED - 1)))
    assert undo.read(job(annotations={names.POLICY: text})) is not None


def test_a_value_that_its_author_has_changed_stays() -> None:
    changed = job_spec(backoffLimit=5, podFailurePolicy={"rules": []})
    injected = (
        Injected("replace", "/spec/backoffLimit", now=3, was=6),
        Injected("add", "/spec/podFailurePolicy", now=POLICY),
    )
    assert undone(changed, *injected) == changed


def test_keys_that_others_have_added_to_an_injected_map_stay() -> None:
    template = {"metadata": {"annotations": {names.MAX_RETRIES: "2", "other": "1"}}, "spec": {"containers": []}}
    injected = Injected("add", "/spec/template/metadata", now={"annotations": {names.MAX_RETRIES: "2"}})
    found = undone({"template": template}, injected)
    assert found["template"]["metadata"] == {"annotations": {"other": "1"}}


def test_an_injected_rule_is_removed_from_the_authors_list() -> None:
    own = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [3]}}
    injected = Injected("add", "/spec/podFailurePolicy/rules/0", now=POLICY["rules"][0])
    found = undone(job_spec(rules=[*POLICY["rules"], own]), injected)
    assert found["podFailurePolicy"]["rules"] == [own]


def test_a_removed_value_is_put_back_unless_there_is_another() -> None:
    injected = Injected("remove", "/spec/backoffLimitPerIndex", was=2)
    assert undone(job_spec(), injected)["backoffLimitPerIndex"] == 2
    assert undone(job_spec(backoffLimitPerIndex=4), injected)["backoffLimitPerIndex"] == 4


@pytest.mark.parametrize(
    "path", ["/spec/suspend", "/metadata/labels/a", "/spec/template/spec/containers", "/status", ""]
)
def test_only_fields_that_rules_write_are_undone(path: str) -> None:
    """Users can write any path into the annotation."""
    root = job(job_spec(suspend=True), labels={"a": "b"})
    for now in (True, "b", root["spec"]["template"]["spec"]["containers"]):
        editor = Editor(root)
        assert undo.take_out(editor, batch.JOB, Record("default", (Injected("add", path, now=now),))) == []
        assert editor.edits == []


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.kind)
def test_a_map_that_a_rule_has_added_with_its_key_is_undone_and_a_map_with_other_keys_is_not(kind: KindSpec) -> None:
    """A rule that sets one key in a map that was absent has added the map."""
    for pattern in undo.undone(kind):
        *path, key = [part for part in pattern if isinstance(part, str)]
        if path and len(path) + 1 == len(pattern):
            assert undo.is_ours((*path,), kind, {key: {"a": 1}})
            assert undo.is_ours((*path,), kind) == undo.is_ours((*path,), kind, {key: 1, "other": 1})


def put_back(root: Json, old: Json) -> Json:
    editor = Editor(root)
    undo.put_back(editor, batch.JOB, old, lambda: msgspec.json.decode(msgspec.json.encode(old)))
    return editor.root


def stored() -> Json:
    """Return a Job with a replaced limit and an injected policy."""
    injected = (
        Injected("replace", "/spec/backoffLimit", now=3, was=6),
        Injected("add", "/spec/podFailurePolicy", now=POLICY),
    )
    return job(job_spec(backoffLimit=3, podFailurePolicy=POLICY), annotations={names.POLICY: record_with(*injected)})


def test_a_manifest_that_is_applied_again_gets_our_injections_back() -> None:
    found = put_back(job(job_spec(backoffLimit=6)), stored())
    assert found["spec"] == stored()["spec"]


def test_a_field_that_its_author_has_changed_keeps_the_authors_value() -> None:
    found = put_back(job(job_spec(backoffLimit=4)), stored())
    assert found["spec"]["backoffLimit"] == 4
    assert found["spec"]["podFailurePolicy"] == POLICY


def test_without_the_policy_annotation_nothing_is_put_back() -> None:
    old = stored()
    del old["metadata"]["annotations"]
    root = job(job_spec(backoffLimit=6))
    assert put_back(root, old) == job(job_spec(backoffLimit=6))
