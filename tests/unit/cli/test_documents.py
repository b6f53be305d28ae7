"""The input of -f: documents, and input that cannot be used."""

import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.costs import assert_grows_with_its_input
from webhook.cli import documents
from webhook.cli.documents import Document, Unusable
from webhook.objects.problem import field

JOB: dict[str, Any] = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}}
JOB_YAML = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\n"


def read(place: Path | str, stdin: bytes = b"") -> list[Document | Unusable]:
    return list(documents.read(str(place), io.BytesIO(stdin)))


def readable(found: list[Document | Unusable]) -> list[Document]:
    assert not [str(one) for one in found if isinstance(one, Unusable)]
    return [one for one in found if isinstance(one, Document)]


def errors(found: list[Document | Unusable]) -> list[str]:
    return [str(one) for one in found if isinstance(one, Unusable)]


def from_stdin(text: str | bytes) -> list[Document]:
    return readable(read("-", text.encode() if isinstance(text, str) else text))


def paths(document: Document) -> list[str]:
    return [field(path) for path, _ in document.objects()]


def test_the_documents_of_a_file_are_numbered_from_1(tmp_path: Path) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text(f"# comment\n---\n{JOB_YAML}---\n{JOB_YAML}")
    first, second = readable(read(file))
    assert (first.file, first.number, first.value) == (str(file), 1, JOB)
    assert (second.file, second.number, second.value) == (str(file), 2, JOB)


def test_an_empty_document_is_left_out_but_counted() -> None:
    assert [one.number for one in from_stdin(f"{JOB_YAML}---\n# Source: empty.yaml\n---\n{JOB_YAML}---\n")] == [1, 3]


def test_a_named_file_can_have_any_suffix(tmp_path: Path) -> None:
    file = tmp_path / "job.txt"
    file.write_text(JOB_YAML)
    assert readable(read(file))[0].value == JOB


def test_a_folder_is_read_with_its_subfolders_in_the_order_of_their_paths(tmp_path: Path) -> None:
    for name in ("b.yaml", "a/z.yml", "a/b/c.json", "c.json", "a.yaml"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(JOB))
    found = [one.file.removeprefix(f"{tmp_path}/") for one in readable(read(tmp_path))]
    assert found == ["a/b/c.json", "a/z.yml", "a.yaml", "b.yaml", "c.json"]


def test_hidden_files_and_files_of_other_types_in_a_folder_are_ignored(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(JOB_YAML)
    for name in ("README.md", "values.yaml.gotmpl", ".hidden.yaml", ".git/config.yaml", "a/.cache/b/c.yaml"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("not: [yaml")
    assert len(readable(read(tmp_path))) == 1


def test_a_hidden_folder_is_read_if_it_is_named(tmp_path: Path) -> None:
    folder = tmp_path / ".jobs"
    folder.mkdir()
    (folder / "job.yaml").write_text(JOB_YAML)
    assert len(readable(read(folder))) == 1


def test_yaml_that_is_no_kubernetes_object_is_a_document_without_objects(tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text("image: busybox\nreplicas: 2\n")
    (tmp_path / "list.yaml").write_text("- 1\n- kind: Job\n")
    (tmp_path / "text.yaml").write_text("just a text\n")
    (tmp_path / "half.yaml").write_text("kind: Job\napiVersion: 1\n")
    (tmp_path / "numbers.json").write_text("[1, 2]\n")
    (tmp_path / "empty.yaml").write_text("")
    (tmp_path / "ci.yaml").write_text("include: !reference [.a, b]\n")
    found = readable(read(tmp_path))
    assert len(found) == 6
    assert [paths(document) for document in found] == [[]] * 6


def test_an_object_outside_a_list_has_an_empty_path() -> None:
    (document,) = from_stdin(JOB_YAML)
    assert list(document.objects()) == [((), JOB)]


def test_the_items_of_a_list_are_objects_with_their_path() -> None:
    items = [JOB, {"kind": "List", "apiVersion": "v1", "items": [JOB, 5]}, {"not": "an object"}, JOB]
    (document,) = from_stdin(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    assert paths(document) == ["items[0]", "items[1].items[0]", "items[3]"]
    assert [one for _, one in document.objects()] == [JOB] * 3


def test_editing_an_item_edits_its_list_but_not_an_alias_of_the_item() -> None:
    (document,) = from_stdin("apiVersion: v1\nkind: List\nitems:\n- &a\n  apiVersion: v1\n  kind: Pod\n- *a\n")
    (_, first), _ = document.objects()
    first["spec"] = {}
    assert document.value["items"] == [
        {"apiVersion": "v1", "kind": "Pod", "spec": {}},
        {"apiVersion": "v1", "kind": "Pod"},
    ]


def test_the_items_of_a_typed_list_get_their_kind_from_the_list() -> None:
    items = [{"metadata": {"name": "a"}}, {"apiVersion": "batch/v1beta1", "kind": "Job"}]
    (document,) = from_stdin(json.dumps({"apiVersion": "batch/v1", "kind": "JobList", "items": items}))
    assert [one for _, one in document.objects()] == [JOB, {"apiVersion": "batch/v1beta1", "kind": "Job"}]


def test_the_items_of_a_typed_list_in_a_list_get_their_kind_from_it() -> None:
    jobs = {"apiVersion": "batch/v1", "kind": "JobList", "items": [{"metadata": {"name": "a"}}]}
    (document,) = from_stdin(json.dumps({"apiVersion": "v1", "kind": "List", "items": [jobs]}))
    assert [one for _, one in document.objects()] == [JOB]


def test_an_object_with_items_is_not_always_a_list() -> None:
    (document,) = from_stdin("apiVersion: example.com/v1\nkind: Menu\nitems: [{apiVersion: v1, kind: Pod}]\n")
    assert paths(document) == [""]


def test_an_object_whose_kind_ends_in_list_is_not_always_a_list() -> None:
    (document,) = from_stdin("apiVersion: example.com/v1\nkind: AllowList\nspec: {}\n")
    assert paths(document) == [""]


def test_a_key_written_twice_is_a_warning_and_the_last_one_counts() -> None:
    (document,) = from_stdin(f"{JOB_YAML}spec: {{backoffLimit: 1}}\nspec: {{backoffLimit: 2}}\n")
    assert document.value["spec"] == {"backoffLimit": 2}
    assert [str(warning) for warning in document.warnings] == ["spec: is written twice, again in line 5; keep one"]


def test_a_key_written_twice_in_json_is_a_warning_as_in_yaml() -> None:
    (document,) = from_stdin(json.dumps(JOB)[:-1] + ', "spec": {"backoffLimit": 1}, "spec": {"backoffLimit": 2}}')
    assert document.value["spec"] == {"backoffLimit": 2}
    assert [str(warning) for warning in document.warnings] == ["spec: is written twice; keep one"]


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ("1e400", "the number 1e400 is too large; write one that fits a 64-bit float, or put it in quotes"),
        ("9" * 5000, f"the number {'9' * 40}… is too large; write one that fits a 64-bit float, or put it in quotes"),
        ('"\\ud800"', "\\ud800 is half of a character; write both halves, or remove it"),
    ],
)
def test_json_values_that_cannot_be_written_again_are_unusable(value: str, error: str) -> None:
    assert errors(read("-", f'{{"a": {value}}}'.encode())) == [f"-:1: {error}"]


@pytest.mark.parametrize("value", ["1e400", "NaN", "9" * 5000])
def test_yaml_that_is_no_valid_number_is_a_string_as_in_kubectl(value: str) -> None:
    assert from_stdin(f"a: {value}\n")[0].value == {"a": value}


@pytest.mark.parametrize("text", ["a: .nan\n", "a: -.inf\n", 'a: "\\ud800"\n', "a: !!float 1e400\n"])
def test_yaml_values_that_json_cannot_express_are_unusable(text: str) -> None:
    assert errors(read("-", text.encode()))[0].startswith("-:1 line 1: ")


@pytest.mark.parametrize("text", ["a\n---\n", "---\n", "{}\n", '{"a": 1}'])
def test_too_many_documents_are_unusable(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MOST_DOCUMENTS", 10)
    assert readable(read("-", (text * 8 + "{}").encode()))
    assert errors(read("-", (text * 12).encode())) == ["-: holds more than 10 documents; split it"]


def test_the_cost_of_reading_a_list_grows_in_proportion_to_its_size() -> None:
    def made(size: int) -> bytes:
        return json.dumps({"apiVersion": "batch/v1", "kind": "JobList", "items": [{"metadata": {}}] * size}).encode()

    assert_grows_with_its_input(lambda data: [list(one.objects()) for one in from_stdin(data)], made, 200)


@pytest.mark.parametrize("text", [JOB_YAML + "---\n", json.dumps(JOB) + "\n"])
def test_the_cost_of_reading_documents_grows_in_proportion_to_the_text(text: str) -> None:
    assert_grows_with_its_input(from_stdin, lambda n: text * n, 20)


def test_a_surrogate_pair_may_be_escaped_in_json() -> None:
    (document,) = from_stdin('\ufeff {"a": "\\ud83d\\ude00", "b": 1.0}\n')
    assert document.value == {"a": "😀", "b": 1.0}


@pytest.mark.parametrize("text", ["{a: 1}\n", '{"a": 1,}\n', '# comment\n{"a": 1}\n', '{"a": 1}\n---\n'])
def test_text_that_only_looks_like_json_is_read_as_yaml(text: str) -> None:
    assert from_stdin(text)[0].value == {"a": 1}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("text", [JOB_YAML, json.dumps(JOB)])
def test_byte_order_marks_and_windows_line_ends_are_accepted(text: str, encoding: str) -> None:
    assert from_stdin(text.replace("\n", "\r\n").encode(encoding))[0].value == JOB


def test_documents_before_a_malformed_one_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(f"{JOB_YAML}---\na: b: c\n---\n{JOB_YAML}")
    (tmp_path / "b.yaml").write_text(JOB_YAML)
    first, error, other = read(tmp_path)
    assert isinstance(first, Document)
    assert isinstance(other, Document)
    assert str(error) == (
        f"{tmp_path}/a.yaml:2 line 5: mapping values are not allowed in this context; "
        'put a value that contains ": " in quotes, or correct the indentation'
    )


def test_the_error_about_a_helm_template_says_to_render_it_first(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: {{ .Release.Name }}\n")
    (error,) = errors(read(file))
    assert error.startswith(f"{file}:1 line 4: ")
    assert error.endswith("; render the template first (helm template), or put {{ }} in quotes")


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"a: 1\nb: \xff\n", 2),
        ("a: é".encode("latin-1"), 1),
        (b"\xff\xfea", 1),
        (b"a: 1\n\n\x00", 3),
        (b"\x1f\x8b\x08", 1),
    ],
)
def test_input_that_is_no_text_is_unusable(data: bytes, line: int) -> None:
    (error,) = read("-", data)
    assert isinstance(error, Unusable)
    assert error.line == line


@pytest.mark.parametrize("nested", ['{"a": ' * 101 + "{}" + "}" * 101, '{"a": ' * 5000 + "{}" + "}" * 5000])
def test_json_that_is_nested_too_deeply_is_unusable(nested: str) -> None:
    assert errors(read("-", nested.encode()))[0].startswith(
        "-:1 line 1: the document is nested more than 100 levels deep; "
    )


def test_json_may_be_nested_as_deep_as_yaml() -> None:
    assert from_stdin('{"a": ' * 100 + "1" + "}" * 100)


def test_a_file_beyond_16_mib_is_unusable(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text('{"a": "' + "x" * 2**24 + '"}')
    assert errors(read(file)) == [f"{file}: is larger than 16 MiB; split it"]


@pytest.mark.parametrize("place", ["", "a\nb", "x" * 300, "/dev/null/x"])
def test_a_path_that_cannot_be_opened_is_unusable(place: str) -> None:
    assert errors(read(place))[0].startswith(f"{place}: cannot be read: ")


def test_a_file_that_cannot_be_read_is_unusable(tmp_path: Path) -> None:
    file = tmp_path / "absent.yaml"
    assert errors(read(file)) == [
        f"{file}: cannot be read: No such file or directory; name a file or folder that can be read"
    ]


def test_unreadable_files_of_a_folder_are_reported_and_the_others_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dangling.yaml").symlink_to(tmp_path / "absent")
    (tmp_path / "job.yaml").write_text(JOB_YAML)
    (tmp_path / "locked").mkdir()
    scandir = os.scandir

    def locked(path: str) -> Any:  # file permissions do not stop root
        if path.endswith("/locked"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", locked)
    found = read(tmp_path)
    assert [one.split("; ")[0] for one in errors(found)] == [
        f"{tmp_path}/locked: cannot be read: Permission denied",
        f"{tmp_path}/dangling.yaml: cannot be read: No such file or directory",
    ]
    assert len(found) == 3


def test_a_folder_without_a_manifest_is_unusable(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("read me")
    assert errors(read(tmp_path)) == [
        f"{tmp_path}: has no file that ends in .yaml, .yml, .json; name a folder that has"
    ]


@pytest.mark.parametrize("data", [b"", b"\n", b"# nothing\n", b"---\n---\n"])
def test_a_pipe_or_file_without_a_document_is_unusable(data: bytes, tmp_path: Path) -> None:
    file = tmp_path / "empty.yaml"
    file.write_bytes(data)
    assert errors(read("-", data)) == ["-: holds no document; must hold one or more"]
    assert errors(read(file)) == [f"{file}: holds no document; must hold one or more"]


@given(st.binary() | st.text().map(lambda text: ("{" + text).encode()))
def test_any_bytes_are_read_or_unusable(data: bytes) -> None:
    found = read("-", data)
    assert found
    for document in found:
        if isinstance(document, Document):
            assert json.dumps(document.value, allow_nan=False)
            assert document.value is not None


def test_several_json_objects_in_one_file_are_several_documents(tmp_path: Path) -> None:
    file = tmp_path / "rendered.json"
    file.write_text('{"kind": "A"}\n{"kind": "B"}{"kind": "C"}\n\n')
    assert [(one.number, one.value["kind"]) for one in readable(read(file))] == [(1, "A"), (2, "B"), (3, "C")]


@pytest.mark.parametrize("rest", ["nonsense", '{"a": NaN}', "{", '{"a": 1}]'])
def test_text_after_json_is_not_ignored(tmp_path: Path, rest: str) -> None:
    file = tmp_path / "rendered.json"
    file.write_text('{"kind": "A"}\n' + rest)
    assert any(isinstance(one, Unusable) for one in read(file))
