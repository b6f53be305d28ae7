"""The file with the cases: what is read, and the problems that are found in it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.objects import job, job_spec
from tests.strategies import examples
from webhook.cli import documents, policy_tests
from webhook.cli.documents import Document, Unusable
from webhook.cli.policy_tests import MOST_CASES
from webhook.objects.problem import Json, field

HEAD: Json = {"apiVersion": "retry-policy.dev/v1alpha1", "kind": "RetryPolicyTest"}
OBJECT: Json = job(job_spec(backoffLimit=3))
GOOD: Json = {"name": "good", "object": OBJECT, "expect": {}}


def write(folder: Path, *written: Any, **fields: Any) -> Path:
    file = folder / "cases.yaml"
    file.write_text(yaml.safe_dump({**HEAD, **fields, "cases": list(written)}, sort_keys=False))
    return file


def problems(file: Path) -> list[str]:
    with pytest.raises(policy_tests.UnusableTestsError) as error:
        policy_tests.load(file)
    return [str(problem) for problem in error.value.problems]


def test_an_object_is_inline_or_in_a_file_beside_the_cases(tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "two.yaml").write_text(yaml.safe_dump_all([job(name="a"), job(name="b")]))
    second = {"name": "second", "manifest": "jobs/two.yaml", "document": 2, "expect": {}}
    _, found = policy_tests.load(write(tmp_path, GOOD, second))
    assert [one.root["metadata"]["name"] for one in found] == ["train", "b"]
    assert [one.line for one in found] == [4, 20]


def test_the_policy_is_in_a_file_beside_the_cases_or_the_packaged_one(tmp_path: Path) -> None:
    policy = {**HEAD, "kind": "RetryPolicy", "profiles": {"gpu": {}}}
    (tmp_path / "policy.yaml").write_text(yaml.safe_dump(policy))
    found, prepared = policy_tests.load(write(tmp_path, GOOD, policy="policy.yaml", profile="gpu"))
    assert (list(found.profiles), prepared[0].profile) == (["gpu"], "gpu")
    found, _ = policy_tests.load(write(tmp_path, GOOD))
    assert list(found.profiles) == ["default", "confirm"]


def test_all_problems_are_found_at_once_and_unknown_fields_name_the_nearest(tmp_path: Path) -> None:
    bad = [
        {"name": "a", "objekt": OBJECT, "expect": {}},
        {"name": "b", "object": OBJECT, "manifest": "a.yaml", "expect": {"placement": "spot"}},
        {"name": "c", "object": OBJECT, "attempt": -1, "expect": {"denied": [{"says": "x"}], "feilds": {}}},
        {"name": "d", "object": OBJECT, "document": 1},
    ]
    found = problems(write(tmp_path, *bad))
    assert [one.partition(": ")[0] for one in found] == [
        "cases[0].objekt",
        "cases[0].manifest",
        "cases[1].expect.placement",
        "cases[1].manifest",
        "cases[2].attempt",
        "cases[2].expect.denied[0].says",
        "cases[2].expect.feilds",
        "cases[3].expect",
        "cases[3].document",
    ]
    assert found[0].endswith("(did you mean object?)")
    assert "(did you mean Spot?)" in found[2]
    assert found[6].endswith("(did you mean fields?)")


def test_all_that_cannot_be_used_is_found_at_once(tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text("kind: [")
    (tmp_path / "two.yaml").write_text(yaml.safe_dump_all([job(name="a"), job(name="b")]))
    bad = [
        {"name": "a", "manifest": "absent.yaml", "expect": {}},
        {"name": "b", "manifest": "broken.yaml", "expect": {}},
        {"name": "c", "manifest": "two.yaml", "expect": {}},
        {"name": "d", "object": {"kind": "Job"}, "expect": {}},
        {"name": "e", "object": OBJECT, "profile": "defualt", "expect": {"fields": {"spec..x": 1}}},
        {"name": "f", "object": OBJECT, "expect": {"denied": [{}], "fields": {"spec": 1}}},
        {"name": "g", "object": {**OBJECT, "kind": "Workflow"}, "attempt": 1, "expect": {}},
        {"name": "h", "object": OBJECT, "expect": {"manifest": "two.yaml"}},
    ]
    found = problems(write(tmp_path, *bad, policy="none.yaml"))
    assert [one.partition(": ")[0] for one in found] == [
        "policy",
        "cases[0].manifest",
        "cases[1].manifest",
        "cases[2].manifest",
        "cases[3].object",
        "cases[4].expect.fields[spec..x]",
        "cases[5].expect.denied",
        "cases[6].attempt",
        "cases[7].expect.manifest",
    ]
    assert "must be confirm or default (did you mean default?)" in problems(write(tmp_path, bad[4]))[1]


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "has 0 documents; must be one"),
        (b"a: [", "line 2, column 1"),
        (b"\xff", "is not UTF-8"),
        (b"a" * 1024 * 1024 + b"a", "is larger than 1 MiB"),
        (b"a: 1\na: 2\n", "a: is written twice"),
        (b"- 1\n", "must be an object"),
    ],
)
def test_what_is_no_file_with_cases_is_refused_with_a_sentence(content: bytes, what: str, tmp_path: Path) -> None:
    file = tmp_path / "cases.yaml"
    file.write_bytes(content)
    assert any(what in one for one in problems(file))


def test_a_file_that_cannot_be_read_is_refused_with_a_sentence(tmp_path: Path) -> None:
    assert problems(tmp_path / "absent.yaml") == ["cannot be read: No such file or directory; name a file with cases"]


def test_the_number_of_cases_is_bounded(tmp_path: Path) -> None:
    small = {"name": "a", "object": {"apiVersion": "v1", "kind": "Pod"}, "expect": {}}
    assert "must have 1000 or fewer" in problems(write(tmp_path, *[small] * (MOST_CASES + 1)))[0]


def test_a_manifest_of_many_cases_is_read_once_and_each_case_has_a_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(OBJECT))
    read: list[str] = []
    original = documents.read

    def reading(place: str, stdin: BinaryIO) -> Iterator[Document | Unusable]:
        read.append(place)
        return original(place, stdin)

    monkeypatch.setattr(documents, "read", reading)
    case = {"name": "a", "manifest": "job.yaml", "expect": {"manifest": "job.yaml"}}
    _, found = policy_tests.load(write(tmp_path, *[case] * 3))
    assert read == [str(tmp_path / "job.yaml")]
    assert len({id(one.root) for one in found}) == 3
    assert all(one.whole is not one.root for one in found)


KEYS = st.text(st.sampled_from("abc-"), min_size=1, max_size=3) | st.sampled_from(["a.b", "a.b/c", "x/y"])


@examples(200)
@given(st.lists(KEYS | st.integers(0, 99), min_size=1, max_size=5).map(tuple))
def test_a_path_as_messages_write_it_is_read_as_the_same_path(path: tuple[str | int, ...]) -> None:
    assert policy_tests.path_of(field(path)) == path


@pytest.mark.parametrize("text", ["", "a..b", "a[", "a]b", "a[]", "a."])
def test_what_is_no_path_is_none(text: str) -> None:
    assert policy_tests.path_of(text) is None
