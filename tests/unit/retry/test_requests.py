"""Requests for retries by annotation."""

from datetime import UTC, datetime
from typing import Any

import jsonpatch
import pytest

from webhook.kube import names
from webhook.objects.problem import Json
from webhook.retry import record, requests
from webhook.retry.record import Requested

NOW = datetime(2026, 11, 22, 8, 30, tzinfo=UTC)
ENDED = "2026-11-22T08:00:00Z"
REQUESTED = Requested(at="2026-11-22T08:30:00Z", by="alice", of="uid-1")


def failed(when: str | None = None, **metadata: Any) -> Json:
    annotations = {} if when is None else {names.RETRY_REQUESTED_AT: when}
    condition = {"type": "Failed", "status": "True", "lastTransitionTime": ENDED}
    return {
        "metadata": {"creationTimestamp": "2026-11-22T07:00:00Z", "annotations": annotations, **metadata},
        "status": {"conditions": [condition]},
    }


def running(when: str) -> Json:
    return {**failed(when), "status": {"conditions": [{"type": "Failed", "status": "False"}]}}


def patched(root: Json, operations: list[Json]) -> Json:
    found: Json = jsonpatch.apply_patch(root, operations)
    return found


@pytest.mark.parametrize(
    ("root", "old", "asks"),
    [
        (failed("2026-11-22T08:30:00Z"), failed(), True),
        (failed("2026-11-22T08:30:00Z"), failed("2026-11-21T08:30:00Z"), True),
        (failed("2026-11-22T08:30:00Z"), failed("2026-11-22T08:30:00Z"), False),
        (failed(), failed("2026-11-22T08:30:00Z"), False),
    ],
)
def test_only_a_new_time_is_a_request(root: Json, old: Json, asks: bool) -> None:  # noqa: FBT001
    assert requests.requests_retry(root, old) is asks


@pytest.mark.parametrize("when", ["2026-11-22T08:30:00Z", "2026-11-22T09:30:00.5+01:00", "2026-11-22T08:30:59Z"])
def test_the_current_time_is_accepted_in_any_time_zone_and_with_a_small_difference_of_clocks(when: str) -> None:
    assert requests.problem(failed(when), NOW) is None


@pytest.mark.parametrize(
    ("when", "what"),
    [
        ("now", "is 'now'; must be the current time, RFC 3339"),
        ("", "is ''"),
        ("2026-11-22", "is '2026-11-22'"),
        ("2026-11-22T08:30:00", "is '2026-11-22T08:30:00'"),
        ("2026-13-22T08:30:00Z", "is '2026-13-22T08:30:00Z'"),
        ("2026-11-22T08:32:00Z", "is 2026-11-22T08:32:00Z, which is in the future; must be the current time"),
    ],
)
def test_a_malformed_or_future_time_is_a_problem(when: str, what: str) -> None:
    assert f"metadata.annotations[{names.RETRY_REQUESTED_AT}]: {what}" in str(requests.problem(failed(when), NOW))


@pytest.mark.parametrize(
    ("root", "what"),
    [
        (failed("2026-11-22T08:00:00Z"), None),
        (failed("2026-11-22T07:59:59Z"), "is earlier than the end of this run; set the current time"),
        (running("2026-11-22T07:30:00Z"), None),
        (running("2026-11-22T06:30:00Z"), "is earlier than the start of this run; set the current time"),
    ],
)
def test_a_request_before_the_end_or_start_of_a_run_is_outdated(root: Json, what: str | None) -> None:
    found = requests.outdated(root, root)
    assert (found is None) if what is None else what in str(found)


@pytest.mark.parametrize("labels", [None, {}, {"team": "vision"}])
def test_an_accepted_request_is_marked_by_a_label_and_can_be_removed_completely(labels: Json | None) -> None:
    root = failed("2026-11-22T08:30:00Z") if labels is None else failed("2026-11-22T08:30:00Z", labels=labels)
    root["metadata"]["annotations"] = {names.RETRY_REQUESTED_AT: "2026-11-22T08:30:00Z"}
    marked = patched(root, requests.accept(root, REQUESTED))
    assert requests.is_marked(marked)
    assert requests.accepted(marked) == REQUESTED
    forgotten = patched(marked, requests.forget(marked))
    assert forgotten["metadata"]["annotations"] == root["metadata"]["annotations"]
    assert (forgotten["metadata"]["labels"] or None) == (labels or None)


def test_a_newer_request_is_not_removed() -> None:
    root = failed("2026-11-22T08:30:00Z")
    marked = patched(root, requests.accept(root, REQUESTED))
    anew = patched(marked, requests.accept(marked, Requested(at="2026-11-22T09:30:00Z", by="bob", of="uid-1")))
    with pytest.raises(jsonpatch.JsonPatchTestFailed):
        patched(anew, requests.forget(marked))
    only_marked = patched(root, requests.mark(root))
    with pytest.raises(jsonpatch.JsonPatchTestFailed):
        patched(anew, requests.forget(only_marked))


def test_a_history_that_an_update_removes_is_restored() -> None:
    old = failed(annotations={names.RETRY_HISTORY: "[]"})
    for root in (failed(), failed(annotations={}), failed(annotations={"note": "mine"})):
        now = patched(root, requests.restore_record(root, old))
        assert now["metadata"]["annotations"][names.RETRY_HISTORY] == "[]"
    bare: Json = {"metadata": {}}
    assert patched(bare, requests.restore_record(bare, old))["metadata"] == {"annotations": {names.RETRY_HISTORY: "[]"}}


def test_a_request_before_the_last_retry_is_outdated() -> None:
    again = Requested(at="2026-11-22T08:10:00+00:00", by="alice", of="restart 0")
    root = running("2026-11-22T08:05:00Z")
    root["metadata"]["annotations"][names.RETRY_HISTORY] = record.with_new(root, again)
    assert "is earlier than the start of this run" in str(requests.outdated(root, root))
    root = running("2026-11-22T08:15:00Z")
    root["metadata"]["annotations"][names.RETRY_HISTORY] = record.with_new(root, again)
    assert requests.outdated(root, root) is None


def test_a_copied_object_loses_request_mark_and_history() -> None:
    root = failed(labels={"team": "vision"})
    marked = patched(root, requests.accept(root, REQUESTED))
    root["metadata"]["annotations"].clear()
    marked["metadata"]["annotations"][names.RETRY_HISTORY] = "[]"
    assert patched(marked, requests.removal_of(marked, *requests.NOT_COPIED)) == root


@pytest.mark.parametrize(
    ("metadata", "changed"),
    [
        ({"labels": {names.RETRY_IN_PROGRESS: "true"}}, [names.RETRY_IN_PROGRESS]),
        ({"labels": {names.RETRY_OF: "uid"}}, [names.RETRY_OF]),
        ({"annotations": {names.RETRY_ACCEPTED: "{}", names.SUCCESSOR: "{}"}}, [names.RETRY_ACCEPTED, names.SUCCESSOR]),
        ({"annotations": {names.RETRY_HISTORY: "[]"}}, [names.RETRY_HISTORY]),
        ({"labels": {names.PROFILE: "default"}, "annotations": {names.POLICY: "{}"}}, []),
    ],
)
def test_adding_and_removing_fields_of_retries_are_guarded_changes(metadata: Json, changed: list[str]) -> None:
    for root, old in ((failed(**metadata), failed()), (failed(), failed(**metadata)), (failed(**metadata), {})):
        assert [path[-1] for path in requests.guarded_changes(root, old)] == changed
    assert requests.guarded_changes(failed(**metadata), failed(**metadata)) == []


@pytest.mark.parametrize("text", ["", "[]", "{}", "[[[[", '{"at": 1}'])
def test_a_malformed_annotation_is_not_an_accepted_request(text: str) -> None:
    assert requests.accepted(failed(annotations={names.RETRY_ACCEPTED: text})) is None
