"""The table of docs/reference/performance.md, from the results of `make bench`."""

from pathlib import Path
from typing import Final

import msgspec

MEASURED: Final = Path(__file__).parents[2] / "docs" / "reference" / "performance.json"


def table() -> str:
    """Return a table of each figure with the one that was measured beside it."""
    lines = ["| What | Ours | The other | Ratio | of the rounds | Wanted |", "|---|---|---|---|---|---|"]
    for row in msgspec.json.decode(MEASURED.read_bytes()):
        sides = " | ".join(f"{row[side]:,.3g} {row['unit']}" for side in ("ours", "other"))
        spread = f"{row['least']:.2f} to {row['greatest']:.2f}"
        lines.append(f"| {row['what']} | {sides} | {row['ratio']:.2f} | {spread} | {row['bound']} |")
    return "\n".join(lines) + "\n"
