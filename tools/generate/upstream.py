"""The table of docs/reference/upstream-suites.md, from the results of `make test-upstream`."""

from tests.upstream.suites import REASONS, Row, rows


def table() -> str:
    """Return a table of the suites, with the reason of each test that passes only without the webhook."""
    lines = [
        "| Suite | Kubernetes | Tests | Passed without | Passed with | With `confirm` | Why the rest |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows():
        results = (row.without, row.with_us, row.confirming)
        passed = " | ".join("" if failed is None else str(row.tests - len(failed)) for failed in results)
        lines.append(f"| {row.suite} | {row.kubernetes} | {row.tests} | {passed} | {'<br>'.join(why(row))} |")
    return "\n".join(lines) + "\n"


def why(row: Row) -> list[str]:
    """Return a line for each test of a row that has failed."""
    anyway = [f"*{name}*: fails without the webhook too" for name in row.with_us if name in row.without]
    too = row.confirming or ()
    ours = (f"*{name}*{' (with `confirm` too)' if name in too else ''}: {REASONS[name]}" for name in row.only_with_us)
    return [*ours, *anyway]
