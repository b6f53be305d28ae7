"""10,000 workloads: the page stays small in the browser, and says how long it took."""

import pytest

from tests import reports
from tests.page.conftest import Show

MOST_NODES = 4000  # elements in the page, whatever the report has


@pytest.mark.parametrize("workloads", [1_000, 10_000])
def test_the_page_stays_small_whatever_the_report_has(
    show: Show, workloads: int, capsys: pytest.CaptureFixture[str]
) -> None:
    report = reports.report(workloads, nodes=workloads // 10)
    page = show(report)
    session = page.context.new_cdp_session(page.page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.page.reload()
    page.view("overview").wait_for()
    loaded = page.evaluate("performance.now()")
    metrics = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
    entry = page.evaluate("performance.getEntriesByType('navigation')[0].toJSON()")
    counts = {"overview": page.nodes()}
    took: dict[str, float] = {}

    def timed(name: str, action: str) -> None:
        took[name] = page.evaluate(
            f"""async () => {{ const from = performance.now(); {action};
            await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
            return performance.now() - from; }}"""
        )
        counts[name] = page.nodes()

    def focus(selector: str) -> str:
        return f"document.querySelector({selector!r})"

    timed("workloads", "location.hash = 'workloads'")
    page.view("workloads").wait_for()
    timed("sort by name", focus("#view-workloads thead button") + ".click()")
    timed("sort by used", focus("#view-workloads thead th:nth-child(6) button") + ".click()")
    timed("last page", focus("#view-workloads .pager button:last-child") + ".click()")
    assert page.view("workloads").locator("tbody tr").count() <= 50
    timed(
        "filter",
        focus("[aria-label='any state']")
        + ".value = 'Failed'; "
        + focus("[aria-label='any state']")
        + ".dispatchEvent(new Event('change'))",
    )
    node = report.nodes[0].name
    timed("by node", f"location.hash = 'workloads?node={node}'")
    timed("nodes", "location.hash = 'nodes'")
    timed("workload", f"location.hash = 'workload?uid={report.workloads[0].uid}'")
    timed("overview again", "location.hash = 'overview'")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    counts["print"] = page.nodes()
    long_tasks = page.evaluate("window.longTasks")
    with capsys.disabled():
        kib = page.evaluate("document.documentElement.outerHTML.length") // 1024
        print(  # noqa: T201 - figures
            f"\n{workloads:,} workloads, {sum(len(one.attempts) for one in report.workloads):,} attempts: "
            f"file {entry['decodedBodySize'] // 1024:,} KiB, shown after {loaded:.0f} ms "
            f"(parsed after {entry['domInteractive']:.0f} ms), for which the page's thread took "
            f"{1000 * metrics['TaskDuration']:.0f} ms of CPU time, scripts {1000 * metrics['ScriptDuration']:.0f} ms\n"
            f"  elements: {counts}, {kib} KiB of markup in the end\n"
            f"  ms to the next frame: { {name: round(ms) for name, ms in took.items()} }\n"
            f"  tasks of more than 50 ms [start, length]: {long_tasks}"
        )
    assert all(count < MOST_NODES for name, count in counts.items() if name != "print"), counts
    assert counts["print"] < 3 * MOST_NODES
