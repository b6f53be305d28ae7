"""Keys that only the webhook and its ledger write are restored in updates by other users."""

from typing import Any

import msgspec
import pytest

from tests.admission import Answer, mutate
from tests.objects import job, job_spec, pod
from tests.unit.rules.job_sets.test_job_set import job_set
from tests.volcano import volcano_job
from webhook.kinds import argo, batch, tekton
from webhook.kinds.job_set import JOB_SET
from webhook.kube import names
from webhook.ledger.model import account
from webhook.ledger.model.account import Account
from webhook.objects.patch import Editor
from webhook.objects.problem import Json
from webhook.rules import own_keys
from webhook.rules.facts import Facts

SPENT = account.encode(Account(ended=3, cost={"retry": 2, "disruption": 1}))


def stored(root: Json | None = None, ledger: str | None = SPENT) -> Json:
    """Return an object as stored after its creation, with an account."""
    made: Json = mutate(root or job(job_spec(backoffLimit=3))).object
    if ledger is not None:
        made["metadata"]["annotations"][names.LEDGER] = ledger
    return made


def changed(old: Json, field: str, key: str, value: str | None) -> Json:
    entries = {**(old["metadata"].get(field) or {})}
    entries.pop(key, None)
    return {**old, "metadata": {**old["metadata"], field: entries if value is None else {**entries, key: value}}}


def ours(answer: Answer | Json) -> dict[str, Any]:
    metadata = (answer.object if isinstance(answer, Answer) else answer)["metadata"]
    return {
        **{key: (metadata.get("annotations") or {}).get(key) for key in (names.POLICY, names.LEDGER)},
        names.PROFILE: (metadata.get("labels") or {}).get(names.PROFILE),
    }


KEYS = [("labels", names.PROFILE), ("annotations", names.POLICY), ("annotations", names.LEDGER)]


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


def test_our_keys_are_restored_in_every_mode_and_under_a_profile_that_no_longer_exists() -> None:
    old = stored()
    bare = changed(old, "labels", names.PROFILE, None)
    for facts in (Facts(profile_name="default", mode="Audit"), Facts(profile_name="gone")):
        assert ours(mutate(bare, facts, old=old)) == ours(old)


def test_a_job_that_is_created_for_a_retry_gets_the_account_of_the_previous_job_once() -> None:
    successor = stored(ledger=None)
    successor["metadata"]["annotations"][names.RETRY_OF] = "uid"
    assert ours(mutate(changed(successor, "annotations", names.LEDGER, SPENT), old=successor))[names.LEDGER] == SPENT
    old = changed(successor, "annotations", names.LEDGER, SPENT)
    assert ours(mutate(changed(old, "annotations", names.LEDGER, "{}"), old=old))[names.LEDGER] == SPENT


def test_a_job_set_begins_a_new_budget_only_after_it_failed_and_only_as_a_requested_retry_writes_it() -> None:
    old = stored(job_set(job_spec(backoffLimit=3)))
    anew = changed(old, "annotations", names.LEDGER, account.continued(SPENT))
    assert ours(mutate(anew, old=old))[names.LEDGER] == SPENT
    old["status"] = {"conditions": [{"type": "Failed", "status": "True"}]}
    assert ours(mutate({**anew, "status": old["status"]}, old=old)) == ours(anew)
    forged = changed(old, "annotations", names.LEDGER, "{}")
    assert ours(mutate(forged, old=old))[names.LEDGER] == SPENT


def test_a_ray_job_begins_a_new_budget_only_after_it_failed_and_only_as_a_requested_retry_writes_it() -> None:
    metadata = {"name": "tune", "annotations": {"a": "b"}}
    root: Json = {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": metadata, "spec": {"backoffLimit": 2}}
    old = stored(root)
    anew = changed(old, "annotations", names.LEDGER, account.continued(SPENT))
    assert ours(mutate(anew, old=old))[names.LEDGER] == SPENT
    old["status"] = {"jobDeploymentStatus": "Failed"}
    assert ours(mutate({**anew, "status": old["status"]}, old=old)) == ours(anew)
    forged = changed(old, "annotations", names.LEDGER, "{}")
    assert ours(mutate(forged, old=old))[names.LEDGER] == SPENT


@pytest.mark.parametrize("phase", ["Failed", "Terminated", "Aborted"])
def test_so_does_a_volcano_job(phase: str) -> None:
    root = {**volcano_job(), "metadata": {"name": "train", "annotations": {"a": "b"}}}
    old = stored(root)
    anew = changed(old, "annotations", names.LEDGER, account.continued(SPENT))
    assert ours(mutate(anew, old=old))[names.LEDGER] == SPENT
    old["status"] = {"state": {"phase": phase}}
    assert ours(mutate({**anew, "status": old["status"]}, old=old)) == ours(anew)
    forged = changed(old, "annotations", names.LEDGER, "{}")
    assert ours(mutate(forged, old=old))[names.LEDGER] == SPENT


def test_a_new_job_has_no_account_and_the_profile_of_its_namespace() -> None:
    root = job(job_spec(backoffLimit=3), labels={names.PROFILE: "lax"}, annotations={names.LEDGER: SPENT})
    found = ours(mutate(root))
    assert (found[names.LEDGER], found[names.PROFILE]) == (None, "default")


def test_a_new_job_with_the_policy_annotation_and_without_the_profile_label_gets_the_label() -> None:
    copy = changed(stored(ledger=None), "labels", names.PROFILE, None)
    assert ours(mutate(copy)) == ours(stored(ledger=None))


def test_a_new_job_that_is_skipped_has_none_of_our_keys() -> None:
    forged = {names.SKIP: "true", names.POLICY: msgspec.json.encode({"profile": "default", "injected": []}).decode()}
    root = job(job_spec(backoffLimit=3), labels={names.PROFILE: "default"}, annotations=forged)
    assert set(ours(mutate(root)).values()) == {None}


def test_the_counted_annotation_is_removed_from_a_new_pod() -> None:
    marked = pod(annotations={names.COUNTED: "2026-01-01T00:00:00Z"})
    assert names.COUNTED not in mutate(marked).object["metadata"]["annotations"]


def with_keys(ledger: str | None = SPENT, profile: str = "default", policy: str = "{}", **annotations: str) -> Json:
    own = {names.POLICY: policy, **({} if ledger is None else {names.LEDGER: ledger}), **annotations}
    return {"metadata": {"labels": {names.PROFILE: profile, "a": "b"}, "annotations": {**own, "c": "d"}}}


def test_an_update_that_keeps_our_keys_is_not_edited() -> None:
    editor = Editor(with_keys())
    own_keys.put_back(editor, batch.JOB, with_keys())
    assert editor.edits == []


def test_only_our_keys_are_put_back() -> None:
    editor = Editor({"metadata": {"labels": {names.PROFILE: "other", "a": "new"}, "annotations": {"c": "new"}}})
    own_keys.put_back(editor, batch.JOB, with_keys())
    assert editor.root["metadata"]["labels"] == {names.PROFILE: "default", "a": "new"}
    assert editor.root["metadata"]["annotations"] == {names.POLICY: "{}", names.LEDGER: SPENT, "c": "new"}


def test_an_update_that_removes_all_labels_and_annotations_gets_our_keys_back() -> None:
    editor = Editor({"metadata": {"name": "train", "labels": None}})
    own_keys.put_back(editor, batch.JOB, with_keys())
    assert editor.root["metadata"]["labels"] == {names.PROFILE: "default"}
    assert editor.root["metadata"]["annotations"] == {names.POLICY: "{}", names.LEDGER: SPENT}


def test_only_a_job_created_for_a_retry_and_without_an_account_continues_the_previous_account() -> None:
    successor = with_keys(ledger=None, **{names.RETRY_OF: "uid-1"})
    assert own_keys.continues_account(batch.JOB, with_keys(), successor)
    assert not own_keys.continues_account(batch.JOB, with_keys(), with_keys(ledger=None))
    assert not own_keys.continues_account(batch.JOB, with_keys(), with_keys(**{names.RETRY_OF: "uid-1"}))


@pytest.mark.parametrize(
    ("conditions", "ledger", "may"),
    [
        ([{"type": "Failed", "status": "True"}], account.continued(SPENT), True),
        ([{"type": "Failed", "status": "True"}], "{}", False),
        ([{"type": "Failed", "status": "True"}], None, False),
        ([], account.continued(SPENT), False),
    ],
)
def test_only_a_failed_job_set_may_continue_its_account_with_a_new_budget(
    conditions: list[Json],
    ledger: str | None,
    may: bool,  # noqa: FBT001
) -> None:
    old = {**with_keys(), "status": {"conditions": conditions}}
    assert own_keys.continues_account(JOB_SET, with_keys(ledger=ledger), old) is may


@pytest.mark.parametrize(
    ("status", "ledger", "may"),
    [
        ("False", account.continued(SPENT), True),
        ("False", "{}", False),
        ("Unknown", account.continued(SPENT), False),
        ("True", account.continued(SPENT), False),
    ],
)
def test_only_a_failed_pipeline_run_may_continue_its_account_with_a_new_budget(
    status: str,
    ledger: str | None,
    may: bool,  # noqa: FBT001
) -> None:
    old = {**with_keys(), "status": {"conditions": [{"type": "Succeeded", "status": status}]}}
    assert own_keys.continues_account(tekton.PIPELINE_RUN, with_keys(ledger=ledger), old) is may


@pytest.mark.parametrize(
    ("phase", "may"), [("Failed", True), ("Error", True), ("Running", False), ("Succeeded", False)]
)
def test_only_a_failed_workflow_may_continue_its_account_with_a_new_budget(phase: str, *, may: bool) -> None:
    old = {**with_keys(ledger=SPENT), "status": {"phase": phase}}
    assert own_keys.continues_account(argo.WORKFLOW, with_keys(ledger=account.continued(SPENT)), old) is may
    assert not own_keys.continues_account(argo.WORKFLOW, with_keys(ledger=SPENT + " "), old)
