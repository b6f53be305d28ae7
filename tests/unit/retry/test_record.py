"""The record of an object's requested retries."""

import pytest

from webhook.kube import names
from webhook.objects.problem import Json
from webhook.retry.record import KEPT, Requested, is_last, read, with_new

ONE = Requested(at="2026-11-21T12:00:00+00:00", by="alice", of="uid-1")


def noted(text: str) -> Json:
    return {"metadata": {"annotations": {names.RETRY_HISTORY: text}}}


def test_a_recorded_retry_is_read_back() -> None:
    root = noted(with_new({"metadata": {}}, ONE))
    assert read(root) == (ONE,)
    assert is_last(root, "uid-1")
    assert not is_last(root, "uid-0")


def test_only_the_newest_retries_are_kept() -> None:
    root: Json = {"metadata": {}}
    for number in range(KEPT + 1):
        root = noted(with_new(root, Requested(at="", by="", of=str(number))))
    assert [one.of for one in read(root)] == [str(number) for number in range(1, KEPT + 1)]


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"a":1}', "[" * 2000])
def test_a_malformed_history_counts_as_absent(text: str) -> None:
    assert read(noted(text)) == ()
