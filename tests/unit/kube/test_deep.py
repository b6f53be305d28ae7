"""Objects of the API that are nested deeper than Python recurses."""

import sys
from typing import Any

import msgspec
import pytest

from tests.opted_in import opted_in
from webhook.kube.client import DEEPEST, decoded, page_decoder
from webhook.kube.informer import Event, Informer, event_decoder, metadata_of
from webhook.tracking.cluster import Cluster

STORED = 10_000  # levels, the most that the API server accepts


def nested(levels: int, name: str = "a") -> bytes:
    deep = '{"a":' * levels + "1" + "}" * levels
    metadata = (
        f'{{"namespace":"ml","name":"{name}","uid":"u","resourceVersion":"7","managedFields":[{{"fieldsV1":{deep}}}]}}'
    )
    return f'{{"metadata":{metadata},"spec":{deep},"status":{{}}}}'.encode()


def test_a_deep_object_hides_no_other_one_of_its_page_or_watch() -> None:
    page = decoded(
        page_decoder.decode, b'{"metadata":{"resourceVersion":"9"},"items":[%s,%s]}' % (nested(STORED), nested(1))
    )
    assert [metadata_of(one).version for one in page.items or ()] == ["7", "7"]
    event = decoded(event_decoder.decode, b'{"type":"ADDED","object":%s}' % nested(STORED))
    assert metadata_of(event.object).name == "a"


def test_a_deep_object_is_known_by_what_is_read_of_it() -> None:
    no_api: Any = None
    found: Informer[Any] = opted_in(Cluster(no_api)).jobs
    found.take(Event("ADDED", msgspec.Raw(nested(STORED))))
    assert list(found.items) == [("ml", "a")]


def test_the_limit_of_recursion_is_as_it_was_afterwards_whatever_happens() -> None:
    before = sys.getrecursionlimit()
    decoded(page_decoder.decode, b'{"metadata":{"resourceVersion":"9"},"items":[%s]}' % nested(STORED))
    with pytest.raises(RecursionError):
        decoded(page_decoder.decode, b'{"metadata":{"resourceVersion":"9"},"items":[%s]}' % nested(2 * DEEPEST))
    assert sys.getrecursionlimit() == before
