"""The table of docs/reference/on-failure.md: what follows which end of a pod, from the scenarios that play it."""

from typing import Any

import yaml

from tests.cluster.on_failure_matrix import CRITERIA, FOLLOWINGS, refusal


def table() -> str:
    """Return a table with a row for each criterion and a column for each answer."""
    heads = [f"{flow(following.next)}<br>{following.differs}" for following in FOLLOWINGS]
    lines = [f"| | {' | '.join(heads)} |", "|---" * (len(FOLLOWINGS) + 1) + "|"]
    for criterion in CRITERIA:
        cells = ["refused" if refusal(criterion, following) else "yes" for following in FOLLOWINGS]
        lines.append(f"| {flow(criterion.match)} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def flow(value: Any) -> str:
    """Return a value as YAML in one line, such as `cause: OOMKilled`."""
    text = yaml.safe_dump(value, default_flow_style=True, width=1000).strip()
    return f"`{text[1:-1]}`"
