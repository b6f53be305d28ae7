"""The fields of a report that the page's scripts read: the report that Python gives them has each."""

import re
from collections.abc import Iterator
from importlib import resources
from typing import Any, Final, get_args, get_origin

import msgspec
import pytest

from webhook.insight.page.render import SCRIPTS
from webhook.insight.report.model import AttemptRow, Bucket, Figures, GroupRow, PlaceRow, Report, Usage, WorkloadRow

# What the scripts call each struct. `row` is any row of a table.
NAMES: Final[dict[str, tuple[Any, ...]]] = {
    "raw": (Report,),
    "report": (Report,),
    "total": (Figures,),
    "figures": (Figures,),
    "used": (Usage,),
    "added": (Usage,),
    "attempt": (AttemptRow,),
    "latest": (AttemptRow,),
    "workload": (WorkloadRow,),
    "group": (GroupRow,),
    "place": (PlaceRow,),
    "bucket": (Bucket,),
    "next": (Bucket,),
    "row": (WorkloadRow, AttemptRow, GroupRow, PlaceRow),
}
ANY_NAME: Final = "|".join(NAMES)
READ: Final = re.compile(rf"(?:(?<![\w.$])|(?<=\.\.\.)|(?<=state\.))({ANY_NAME})((?:\??\.\w+)+)")
TAKEN: Final = re.compile(rf"const \{{ ([^}}]+) \}} = (?:state\.)?({ANY_NAME})((?:\.\w+)*);")
SET: Final = re.compile(rf"\b(?:{ANY_NAME})\.(\w+) = ")  # what the scripts add
CODE: Final = {name: (resources.files("webhook.insight.page") / name).read_text() for name in SCRIPTS}
ADDED: Final = {name for code in CODE.values() for name in SET.findall(code)}


def fields_of(one: Any) -> dict[str, Any] | None:
    """Return what a value has, with the type of each; None if it is no struct and no table with known keys."""
    if isinstance(one, type) and issubclass(one, msgspec.Struct):
        return {field.encode_name: field.type for field in msgspec.structs.fields(one)}
    keys = get_args(get_args(one)[0]) if get_origin(one) is dict else ()
    return dict.fromkeys(keys, get_args(one)[1]) if keys else None


def absent_fields(file: str, code: str) -> Iterator[str]:
    """Yield each field that a script reads and its struct lacks, with the place."""
    reads = [(read.start(), read[1], read[2].replace("?", "").split(".")[1:]) for read in READ.finditer(code)]
    reads += [
        (taken.start(), taken[2], [*taken[3].split(".")[1:], name.partition(":")[0]])
        for taken in TAKEN.finditer(code)
        for name in taken[1].split(", ")
    ]
    for at, name, path in reads:
        types: list[Any] = list(NAMES[name])
        for part in path:
            known = [found for found in map(fields_of, types) if found is not None]
            if not known or part in ADDED:
                break
            types = [found[part] for found in known if part in found]
            if not types:
                line = code.count("\n", 0, at) + 1
                yield f"{file}:{line}: {'.'.join((name, *path))}: the report has no {part}"
                break


@pytest.mark.parametrize("file", SCRIPTS)
def test_the_report_has_each_field_that_a_script_reads(file: str) -> None:
    assert list(absent_fields(file, CODE[file])) == []


@pytest.mark.parametrize(
    "code",
    [
        "row.figures.used.attempts, workload.nmae",
        "const { name, nmae } = workload;",
        "workload.figures?.nmae",
        "[...report.nmae]",
        "state.report.nmae.length",
        "group.figures.lostTo.nmae",
    ],
)
def test_a_field_that_is_absent_is_named_with_its_place(code: str) -> None:
    (found,) = absent_fields("views.js", f"\n{code}")
    assert found.startswith("views.js:2: ")
    assert found.endswith(": the report has no nmae")
