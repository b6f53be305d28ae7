"""Keys that only the webhook and its ledger write are restored in updates by other users."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.admission import Answer, mutate
from tests.objects import job, job_spec, pod
from tests.unit.systems.job_set.rules.test_job_set import job_set
from tests.volcano import volcano_job
from webhook.kube import names
from webhook.objects.patch import Editor
from webhook.objects.problem import Json
from webhook.retry import requests
from webhook.rules import own_keys
from webhook.rules.facts import Facts
from webhook.systems.argo import spec as argo
from webhook.systems.job import spec as batch
from webhook.systems.job_set.spec import JOB_SET
from webhook.systems.kind_spec import KindSpec
from webhook.systems.tekton import spec as tekton

RETRIED = '[{"at":"2026-01-01T00:00:00Z","by":"alice","of":"uid"}]'
AGAIN = '[{"at":"2026-01-02T00:00:00Z","by":"alice","of":"uid"}]'


def stored(root: Json | None = None, history: str | None = RETRIED) -> Json:
    """Return an object as stored after its creation, with a retry history."""
    made: Json = mutate(deepcopy(root or job(job_spec(backoffLimit=3)))).object
    if history is not None:
        made["metadata"]["annotations"][names.RETRY_HISTORY] = history
    return made


def changed(old: Json, field: str, key: str, value: str | None) -> Json:
    entries = {**(old["metadata"].get(field) or {})}
    entries.pop(key, None)
    return {**old, "metadata": {**old["metadata"], field: entries if value is None else {**entries, key: value}}}


def ours(answer: Answer | Json) -> dict[str, Any]:
    metadata = (answer.object if isinstance(answer, Answer) else answer)["metadata"]
    return {
        **{key: (metadata.get("annotations") or {}).get(key) for key in (names.POLICY, names.RETRY_HISTORY)},
        names.PROFILE: (metadata.get("labels") or {}).get(names.PROFILE),
    }


MANIFESTS = Path(__file__).parents[3] / "manifests"
OVERLAY = MANIFESTS / "overlays" / "requested-retries"
KEYS = [("labels", names.PROFILE), ("annotations", names.POLICY), ("annotations", names.RETRY_HISTORY)]


@pytest.mark.parametrize(("field", "key"), KEYS)
@pytest.mark.parametrize("value", [None, "other"])
@pytest.mark.parametrize("root", [job(job_spec(backoffLimit=3)), job_set(job_spec(backoffLimit=3))])
def test_an_update_cannot_change_or_remove_our_keys(root: Json, value: str | None, field: str, key: str) -> None:
    old = stored(root)
    assert ours(mutate(changed(old, field, key, value), old=old)) == ours(old)


@pytest.mark.parametrize(("field", "key"), KEYS)
def test_an_update_cannot_add_our_keys_to_a_job_from_before_the_opt_in(field: str, key: str) -> None:
    old = job(job_spec(backoffLimit=3), labels={"a": "b"}, annotations={"a": "b"})
    assert mutate(changed(old, field, key, "other"), old=old).object == old


@pytest.mark.parametrize("key", sorted(names.KEPT))
def test_what_others_write_into_a_record_of_ours_is_undone_or_judged(key: str) -> None:
    editor = Editor(job(annotations={key: "new"}))
    own_keys.put_back(editor, batch.JOB, job(annotations={key: "old"}))
    is_undone = editor.root["metadata"]["annotations"].get(key) == "old"
    is_judged = key in {path[-1] for path in requests.GUARDED}
    assert is_undone or is_judged, (
        "undo it in `put_back` of webhook/rules/own_keys.py, or judge it: GUARDED in webhook/retry/requests.py"
    )
    if is_judged:
        condition = (OVERLAY / "kustomization.yaml").read_text().split("name: is-about-a-retry")[1]
        for half in condition.partition("failurePolicy:")[0].split(") :\n"):  # of a creation, and of an update
            assert f"'{key.removeprefix(names.PREFIX)}'" in half, "add it to is-about-a-retry, or no request is judged"
    else:
        policies = (MANIFESTS / "base" / "protected-keys.yaml").read_text().split("\n---\n")
        (of_status,) = (
            one for one in policies if "name: retry-policy-webhook-job-status-keys\nspec:\n  failurePolicy" in one
        )
        assert f"'{key}'" in of_status, "add it to the policy: no webhook sees an update of a Job's status"


def test_our_keys_are_restored_in_every_mode_and_under_a_profile_that_no_longer_exists() -> None:
    old = stored()
    bare = changed(old, "labels", names.PROFILE, None)
    for facts in (Facts(profile_name="default", mode="Audit"), Facts(profile_name="gone")):
        assert ours(mutate(bare, facts, old=old)) == ours(old)


def test_a_job_that_is_created_for_a_retry_gets_the_history_of_the_previous_job() -> None:
    successor = stored(history=None)
    successor["metadata"]["annotations"][names.RETRY_OF] = "uid"
    released = changed(
        changed(successor, "annotations", names.RETRY_OF, None), "annotations", names.RETRY_HISTORY, AGAIN
    )
    assert ours(mutate(released, old=successor))[names.RETRY_HISTORY] == AGAIN
    again = changed(released, "annotations", names.RETRY_HISTORY, RETRIED)
    assert ours(mutate(again, old=released))[names.RETRY_HISTORY] == AGAIN


RAY_JOB: Json = {
    "apiVersion": "ray.io/v1",
    "kind": "RayJob",
    "metadata": {"name": "tune", "annotations": {"a": "b"}},
    "spec": {"backoffLimit": 2},
}
VOLCANO_JOB = {**volcano_job(), "metadata": {"name": "train", "annotations": {"a": "b"}}}


@pytest.mark.parametrize(
    ("root", "status"),
    [
        (job_set(job_spec(backoffLimit=3)), {"conditions": [{"type": "Failed", "status": "True"}]}),
        (RAY_JOB, {"jobDeploymentStatus": "Failed"}),
        *((VOLCANO_JOB, {"state": {"phase": phase}}) for phase in ("Failed", "Terminated", "Aborted")),
    ],
)
def test_budgets_begin_anew_only_after_a_workload_has_failed(root: Json, status: Json) -> None:
    old = stored(root)
    anew = changed(old, "annotations", names.RETRY_HISTORY, AGAIN)
    assert ours(mutate(anew, old=old))[names.RETRY_HISTORY] == RETRIED
    old["status"] = status
    assert ours(mutate({**anew, "status": status}, old=old)) == ours(anew)


def test_a_new_job_has_the_profile_of_its_namespace() -> None:
    root = job(job_spec(backoffLimit=3), labels={names.PROFILE: "lax"})
    assert ours(mutate(root))[names.PROFILE] == "default"


def test_a_new_job_with_the_policy_annotation_and_without_the_profile_label_gets_the_label() -> None:
    copy = changed(stored(history=None), "labels", names.PROFILE, None)
    assert ours(mutate(copy)) == ours(stored(history=None))


def test_a_new_job_that_is_skipped_has_none_of_our_keys() -> None:
    forged = {names.SKIP: "true", names.POLICY: msgspec.json.encode({"profile": "default", "injected": []}).decode()}
    root = job(job_spec(backoffLimit=3), labels={names.PROFILE: "default"}, annotations=forged)
    assert set(ours(mutate(root)).values()) == {None}


def test_the_counted_annotation_is_removed_from_a_new_pod() -> None:
    marked = pod(annotations={names.COUNTED: "2026-01-01T00:00:00Z"})
    assert names.COUNTED not in mutate(marked).object["metadata"]["annotations"]


def with_keys(history: str | None = RETRIED, profile: str = "default", policy: str = "{}", **annotations: str) -> Json:
    own = {names.POLICY: policy, **({} if history is None else {names.RETRY_HISTORY: history}), **annotations}
    return {"metadata": {"labels": {names.PROFILE: profile, "a": "b"}, "annotations": {**own, "c": "d"}}}


def test_an_update_that_keeps_our_keys_is_not_edited() -> None:
    editor = Editor(with_keys())
    own_keys.put_back(editor, batch.JOB, with_keys())
    assert editor.edits == []


def test_only_our_keys_are_put_back() -> None:
    editor = Editor({"metadata": {"labels": {names.PROFILE: "other", "a": "new"}, "annotations": {"c": "new"}}})
    own_keys.put_back(editor, batch.JOB, with_keys())
    assert editor.root["metadata"]["labels"] == {names.PROFILE: "default", "a": "new"}
    assert editor.root["metadata"]["annotations"] == {names.POLICY: "{}", names.RETRY_HISTORY: RETRIED, "c": "new"}


def test_an_update_that_removes_all_labels_and_annotations_gets_our_keys_back() -> None:
    editor = Editor({"metadata": {"name": "train", "labels": None}})
    own_keys.put_back(editor, batch.JOB, with_keys())
    assert editor.root["metadata"]["labels"] == {names.PROFILE: "default"}
    assert editor.root["metadata"]["annotations"] == {names.POLICY: "{}", names.RETRY_HISTORY: RETRIED}


@pytest.mark.parametrize(
    ("kind", "status", "may"),
    [
        (batch.JOB, {"conditions": [{"type": "Failed", "status": "True"}]}, False),
        (JOB_SET, {"conditions": [{"type": "Failed", "status": "True"}]}, True),
        (JOB_SET, {}, False),
        (tekton.PIPELINE_RUN, {"conditions": [{"type": "Succeeded", "status": "False"}]}, True),
        (tekton.PIPELINE_RUN, {"conditions": [{"type": "Succeeded", "status": "Unknown"}]}, False),
        (tekton.PIPELINE_RUN, {"conditions": [{"type": "Succeeded", "status": "True"}]}, False),
        *((argo.WORKFLOW, {"phase": phase}, True) for phase in ("Failed", "Error")),
        *((argo.WORKFLOW, {"phase": phase}, False) for phase in ("Running", "Succeeded")),
    ],
)
def test_only_what_has_failed_may_begin_anew(kind: KindSpec, status: Json, *, may: bool) -> None:
    assert own_keys.may_begin_anew(kind, {**with_keys(), "status": status}) is may


def test_only_a_job_created_for_a_retry_may_begin_anew() -> None:
    assert own_keys.may_begin_anew(batch.JOB, with_keys(**{names.RETRY_OF: "uid-1"}))
    assert not own_keys.may_begin_anew(batch.JOB, with_keys())
