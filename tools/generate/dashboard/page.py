"""What docs/how-to/watch.md says about each panel of the dashboard."""

from tools.generate.dashboard.panel import Row


def part(row: Row) -> str:
    """Return the picture of a row, and a table of its panels."""
    lines = [
        f"![{row.question} The panels of this row, drawn from the metrics of a test run]({row.picture})",
        "",
        "| Panel | What it tells | What to do |",
        "|---|---|---|",
        *(f"| {panel.title} | {panel.tells} | {panel.act} |" for panel in row.panels),
    ]
    return "\n".join(lines) + "\n"
