"""Objects that are stored as pieces of JSON, by namespace and name."""

import pytest

from webhook.kube.packed import Packed
from webhook.objects.problem import Json


def packed() -> Packed[Json]:
    return Packed(lambda item: (b'{"number":', b"%d}" % item["number"]))


def test_objects_of_several_namespaces_are_found_and_iterated() -> None:
    found = packed()
    for number, key in enumerate([("a", "x"), ("a", "y"), ("b", "x")]):
        found[key] = {"number": number}
    assert dict(found) == {("a", "x"): {"number": 0}, ("a", "y"): {"number": 1}, ("b", "x"): {"number": 2}}
    assert len(found) == 3
    assert found.get(("b", "y")) is None
    assert found.get(("c", "x")) is None


def test_a_removed_object_leaves_nothing_behind_and_its_namespace_neither() -> None:
    found = packed()
    found["a", "x"] = {"number": 1}
    assert found.pop(("a", "x"), None) is not None
    assert found.pop(("a", "x"), None) is None
    assert found.namespaces == {}
    with pytest.raises(KeyError):
        del found["a", "x"]


def test_whether_an_object_is_there_is_known_without_decoding_it(monkeypatch: pytest.MonkeyPatch) -> None:
    found = packed()
    found["a", "x"] = {"number": 1}
    monkeypatch.setattr("webhook.kube.packed.decode", None)
    assert ("a", "x") in found
    assert ("a", "y") not in found
    assert ("b", "x") not in found
