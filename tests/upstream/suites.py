"""The suites, their results, and the reason of each test that passes only without the webhook."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FILE: Final = Path(__file__).parents[2] / "docs" / "reference" / "upstream-suites.json"
SUITES: Final = ("[sig-apps] Job", "[sig-apps] CronJob")
# What Ginkgo calls these suites starts so; a word in brackets at the end of a test's name is a label.
LABELS: Final = re.compile(r"( \[[\w:-]+\])+$")
NOT_RUN: Final = frozenset({"skipped", "pending"})
REASONS: Final[Mapping[str, str]] = {}


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The results of a suite: how many tests ran, and the names of those that failed `without` and `with_us`."""

    suite: str
    version: str
    tests: int
    without: tuple[str, ...]
    with_us: tuple[str, ...]

    @property
    def only_with_us(self) -> list[str]:
        """The tests that passed without the webhook, and failed with it."""
        return [name for name in self.with_us if name not in self.without]


@dataclass(frozen=True, slots=True)
class Result:
    """What Ginkgo reported of a run: the names of the tests that ran, and why those failed that did."""

    ran: frozenset[str]
    failures: Mapping[str, str]


def result_of(reports: Sequence[Any]) -> Result:
    """Return the result from Ginkgo's reports in JSON; raise ValueError if a test has failed outside of any test."""
    ran: dict[str, str | None] = {}
    for report in reports:
        for spec in report["SpecReports"]:
            if spec["State"] in NOT_RUN:
                continue
            failure = None if spec["State"] == "passed" else spec["Failure"]["Message"]
            if spec["LeafNodeType"] == "It":
                ran[LABELS.sub("", spec["LeafNodeText"])] = failure
            elif failure is not None:
                raise ValueError(f"{spec['LeafNodeType']}: {failure}")
    return Result(frozenset(ran), {name: failure for name, failure in ran.items() if failure is not None})


def row_of(suite: str, version: str, without: Result, with_us: Result) -> Row:
    """Return the row of a suite; raise ValueError if one of the runs had other tests, or none."""
    if without.ran != with_us.ran or not without.ran:
        raise ValueError(f"{suite}: {len(without.ran)} tests ran without, {len(with_us.ran)} with")
    return Row(suite, version, len(without.ran), tuple(sorted(without.failures)), tuple(sorted(with_us.failures)))


def rows() -> list[Row]:
    """Return the measured rows."""
    return msgspec.json.decode(FILE.read_bytes(), type=list[Row])


def write(new: Sequence[Row]) -> None:
    """Put rows in the place of those of the same suite and version."""
    known = {(row.suite, row.version): row for row in [*(rows() if FILE.exists() else []), *new]}
    in_order = sorted(known.values(), key=lambda row: (SUITES.index(row.suite), row.version))
    FILE.write_bytes(msgspec.json.format(msgspec.json.encode(in_order)) + b"\n")
