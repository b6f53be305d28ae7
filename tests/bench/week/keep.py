"""Keeps what a week leaves behind in files: records, policies and figures, so that predictions can be repeated."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from tests.bench.week.figures import Cell
from tests.bench.week.policies import OURS, POLICIES, file_of, name_of, simulated
from tests.bench.week.records import records
from webhook.history.record import decode, encode
from webhook.policy.model import Policy
from webhook.policy.parse import parse

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.bench.week.rounds import Week
    from webhook.history.record import Record
    from webhook.policy.model import FailureRule

TRUTH = "truth.json"


def keep(folder: Path, week: Week, cells: list[Cell]) -> None:
    """Write POLICY.ndjson and POLICY.yaml of each policy, and truth.json with the figures, all in simulated time."""
    folder.mkdir(parents=True, exist_ok=True)
    for policy in POLICIES:
        name = name_of(policy)
        rules: Sequence[FailureRule] = ()
        if policy in OURS:
            (folder / f"{name}.yaml").write_text(file_of(simulated(policy, week.market)))
            rules = policy_in(folder, policy).profiles["default"].on_failure
        lines = (encode(record) + b"\n" for record in records(week.seen[name], name, rules))
        (folder / f"{name}.ndjson").write_bytes(b"".join(lines))
    write_truth(folder, cells)


def write_truth(folder: Path, cells: list[Cell]) -> None:
    (folder / TRUTH).write_bytes(msgspec.json.format(msgspec.json.encode(cells), indent=1) + b"\n")


def policy_in(folder: Path, policy: str) -> Policy:
    """Return a policy that was kept."""
    found = parse((folder / f"{name_of(policy)}.yaml").read_text())
    if not isinstance(found, Policy):
        raise TypeError(f"{folder}: {found}")
    return found


def records_in(folder: Path, policy: str) -> list[Record]:
    """Return the records of a policy that were kept."""
    return [decode(line) for line in (folder / f"{name_of(policy)}.ndjson").read_bytes().splitlines()]


def truth_in(folder: Path) -> dict[str, Cell]:
    """Return the figures that were kept, by policy."""
    cells = msgspec.json.decode((folder / TRUTH).read_bytes(), type=list[Cell])
    return {cell.policy: cell for cell in cells}
