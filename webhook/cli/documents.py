"""Read the documents in a file, a folder or stdin (`-f FILE|FOLDER|-`), and report what cannot be read."""

import codecs
import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path as FilePath
from typing import Any, BinaryIO, Final

from webhook.objects import strict_json, strict_yaml
from webhook.objects.problem import Json, Path, Problem

SUFFIXES: Final = (".yaml", ".yml", ".json")  # files that kubectl reads in a folder
LARGEST: Final = 16 * 1024 * 1024  # bytes of a file; reading YAML takes a second for two to three million
MOST_DOCUMENTS: Final = 100_000  # in one file; ten times as many as useful objects fit into the largest file
STDIN: Final = "-"
IsWanted = Callable[[str], bool]
JSON_OBJECT: Final = re.compile(r"\s*\{")


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a file, with a value that is not null; the caller may edit the value.

    `number` counts all documents of the file from 1, also empty ones. `warnings`: the duplicate keys, with paths
    relative to `value`.
    """

    file: str
    number: int
    value: Any
    warnings: list[Problem]

    def objects(self) -> Iterator[tuple[Path, Json]]:
        """Yield path and object of each Kubernetes object: the document itself, or the items of a list; else none."""
        yield from _objects(self.value, ())


@dataclass(frozen=True, slots=True)
class Unusable:
    """A file, or a part of it, that cannot be read; as a string: `FILE:DOC line LINE: what; remedy`.

    `number`: of the document that cannot be read, None if the file cannot be read as documents. `line`: in the file,
    None if unknown.
    """

    file: str
    number: int | None
    line: int | None
    what: str
    remedy: str

    def __str__(self) -> str:
        document = f":{self.number}" if self.number is not None else ":" if self.line is not None else ""
        line = f" line {self.line}" if self.line is not None else ""
        return f"{self.file}{document}{line}: {self.what}; {self.remedy}"


def always(_text: str) -> bool:
    """Return True."""
    return True


def is_stream(place: str) -> bool:
    """Return True if a place can be read once alone: stdin, or a pipe."""
    try:
        mode = os.stat(place).st_mode  # noqa: PTH116 - as a Path, "" would be the current folder
    except (OSError, ValueError):
        return place == STDIN
    return place == STDIN or not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def read(place: str, stdin: BinaryIO, is_wanted: IsWanted = always) -> Iterator[Document | Unusable]:
    """Yield the documents in a file, in a folder and its subfolders, or in stdin.

    `is_wanted`: whether the documents in a text are wanted; those in other files are not read.

    In a folder these are the files that kubectl reads, sorted by path, except those whose name begins with a dot. A
    file or stdin without a document is Unusable: probably the command before the pipe has failed.
    """
    if place == STDIN:
        yield from read_stream(place, stdin.read(LARGEST + 1), is_wanted)
        return
    try:
        is_folder = stat.S_ISDIR(os.stat(place).st_mode)  # noqa: PTH116 - as a Path, "" would be the current folder
    except OSError as error:
        yield unreadable(place, error)
        return
    yield from (
        _read_folder(place, is_wanted) if is_folder else _not_empty(place, _read_file(FilePath(place), is_wanted))
    )


def read_stream(place: str, data: bytes, is_wanted: IsWanted = always) -> Iterator[Document | Unusable]:
    """Yield the documents in what was read of stdin or of a pipe."""
    return _not_empty(place, _read_bytes(place, data, is_wanted))


def _read_folder(place: str, is_wanted: IsWanted) -> Iterator[Document | Unusable]:
    """Yield the documents in the files of a folder; here a file without a document is no error."""
    errors: list[OSError] = []
    files: list[FilePath] = []
    for folder, folders, names in os.walk(place, onerror=errors.append):
        folders[:] = [name for name in folders if not name.startswith(".")]
        files += [FilePath(folder, name) for name in names if name.endswith(SUFFIXES) and not name.startswith(".")]
    for error in errors:
        yield unreadable(str(error.filename), error)
    for file in sorted(files):
        yield from _read_file(file, is_wanted)
    if not files and not errors:
        yield Unusable(place, None, None, f"has no file that ends in {', '.join(SUFFIXES)}", "name a folder that has")


def _read_file(file: FilePath, is_wanted: IsWanted) -> Iterator[Document | Unusable]:
    try:
        with file.open("rb") as opened:
            data = opened.read(LARGEST + 1)
    except OSError as error:
        yield unreadable(str(file), error)
    else:
        yield from _read_bytes(str(file), data, is_wanted)


def _read_bytes(name: str, data: bytes, is_wanted: IsWanted) -> Iterator[Document | Unusable]:
    """Yield the documents in the bytes of a file, up to the first part that cannot be read."""
    if len(data) > LARGEST:
        yield Unusable(name, None, None, f"is larger than {LARGEST // 2**20} MiB", "split it")
        return
    number = 0
    try:
        text = text_in(data)
        for number, (value, problems) in enumerate(_read_text(text) if is_wanted(text) else (), start=1):
            if number > MOST_DOCUMENTS:
                yield Unusable(name, None, None, f"holds more than {MOST_DOCUMENTS:,} documents", "split it")
                return
            if value is not None:
                _name_items(value)
                yield Document(name, number, value, problems)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        yield Unusable(name, None, line, f"is not {error.encoding}", "save it as UTF-8")
    except strict_yaml.YamlError as error:
        yield Unusable(name, number + 1, error.line, error.what, error.remedy)
    except strict_json.JsonError as error:
        yield Unusable(name, number + 1, None, error.what, error.remedy)


def text_in(data: bytes) -> str:
    """Return the text in the bytes of a file; raise UnicodeDecodeError."""
    # PowerShell's `>` writes UTF-16; kubectl reads that too.
    encoding = "utf-16" if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"
    return data.decode(encoding)


def _read_text(text: str) -> Iterator[tuple[Any, list[Problem]]]:
    """Yield value and problems of each document in a text, which is YAML or JSON.

    JSON has a reader of its own, which is much faster and accepts escapes that YAML lacks. Text that only resembles
    JSON is read as YAML, as in kubectl, and the YAML reader reports its errors.
    """
    if JSON_OBJECT.match(text):
        try:
            values = list(islice(strict_json.read(text), MOST_DOCUMENTS + 1))
        except (ValueError, RecursionError):
            pass
        else:
            yield from values
            return
    yield from strict_yaml.read(text)


def _name_items(value: Any) -> None:
    """Set kind and apiVersion on the items of a typed list, such as a JobList, if they have neither.

    The API server omits them, and kubectl adds them again (UnstructuredJSONScheme).
    """
    for item in items(value) or ():
        if isinstance(item, dict) and value["kind"] != "List" and not item.get("kind") and not item.get("apiVersion"):
            item["kind"] = value["kind"].removesuffix("List")
            item["apiVersion"] = value["apiVersion"]
        _name_items(item)


def _objects(value: Any, path: Path) -> Iterator[tuple[Path, Json]]:
    entries = items(value)
    if entries is not None:
        for index, item in enumerate(entries):
            yield from _objects(item, (*path, "items", index))
    elif is_object(value):
        yield path, value


def items(value: Any) -> list[Any] | None:
    """Return the items of a list of objects; None if the value is not one, even if its kind ends in List."""
    if is_object(value) and value["kind"].endswith("List") and isinstance(value.get("items"), list):
        found: list[Any] = value["items"]
        return found
    return None


def is_object(value: Any) -> bool:
    """Return True if a value has kind and apiVersion, as every Kubernetes object."""
    return isinstance(value, dict) and all(isinstance(value.get(key), str) for key in ("apiVersion", "kind"))


def _not_empty(name: str, found: Iterator[Document | Unusable]) -> Iterator[Document | Unusable]:
    """Yield everything in `found`; if it is empty, yield an Unusable that says so."""
    first = next(found, None)
    yield Unusable(name, None, None, "holds no document", "must hold one or more") if first is None else first
    yield from found


def unreadable(name: str, error: OSError) -> Unusable:
    """Return the Unusable for a file or folder that cannot be opened."""
    return Unusable(name, None, None, f"cannot be read: {error.strerror}", "name a file or folder that can be read")
