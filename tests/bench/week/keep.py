"""Keeps what a week leaves behind in files: records, policies and figures, so that predictions can be repeated."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from tests.bench.simulation import name_of
from tests.bench.week.figures import Cell
from tests.bench.week.history import differences, goodput_of, server_records
from tests.bench.week.policies import OURS, POLICIES, file_of, simulated
from tests.bench.week.records import records
from webhook.history.record import decode, encode
from webhook.policy.model import Policy
from webhook.policy.parse import parse

if TYPE_CHECKING:
    from pathlib import Path

    from tests.bench.week.rounds import Week
    from webhook.history.record import Record
    from webhook.policy.model import FailureRule

TRUTH = "truth.json"


def keep(folder: Path, week: Week, cells: list[Cell], server: Path | None) -> None:
    """Write POLICY.ndjson and POLICY.yaml of each policy, and truth.json with the figures, all in simulated time.

    `server`: the folder of the server's own records. They are written to POLICY.server.ndjson.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for policy in POLICIES:
        name = name_of(policy)
        rules: tuple[FailureRule, ...] = ()
        if policy in OURS:
            (folder / f"{name}.yaml").write_text(file_of(simulated(policy, week.market)))
            rules = policy_in(folder, policy).profiles["default"].on_failure
        own = records(week.seen[name], name, rules)
        write_records(folder / f"{name}.ndjson", own)
        if server is not None and policy in OURS:
            written = [one for one in server_records(server, week.began) if one.namespace == name]
            write_records(folder / f"{name}.server.ndjson", written)
            print(policy, differences(own, written), flush=True)
            (cell,) = (one for one in cells if one.policy == policy)
            print(f"goodput: {goodput_of(written):.1%} by the report, {cell.goodput:.1%} seen", flush=True)
    write_truth(folder, cells)


def write_records(file: Path, found: list[Record]) -> None:
    file.write_bytes(b"".join(encode(record) + b"\n" for record in found))


def write_truth(folder: Path, cells: list[Cell]) -> None:
    (folder / TRUTH).write_bytes(msgspec.json.format(msgspec.json.encode(cells), indent=1) + b"\n")


def policy_in(folder: Path, policy: str) -> Policy:
    """Return a policy that was kept."""
    found = parse((folder / f"{name_of(policy)}.yaml").read_text())
    if not isinstance(found, Policy):
        raise TypeError(f"{folder}: {found}")
    return found


def records_in(folder: Path, policy: str, *, of_server: bool = False) -> list[Record]:
    """Return the records of a policy that were kept, those of the witness or of the server."""
    file = folder / f"{name_of(policy)}{'.server' * of_server}.ndjson"
    return [decode(line) for line in file.read_bytes().splitlines()]


def cells_in(folder: Path) -> list[Cell]:
    """Return the figures that were kept of all seeds."""
    return [cell for file in sorted(folder.glob(f"[0-9]*/{TRUTH}")) for cell in truth_in(file.parent).values()]


def truth_in(folder: Path) -> dict[str, Cell]:
    """Return the figures that were kept, by policy."""
    cells = msgspec.json.decode((folder / TRUTH).read_bytes(), type=list[Cell])
    return {cell.policy: cell for cell in cells}
