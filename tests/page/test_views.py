"""What the views show: numbers, filters, colours, paper, and nothing at all."""

import re
from typing import Any, Literal

import pytest

from tests import reports
from tests.page.conftest import Show
from webhook.insight.report.model import Report

# Texts whose contrast with what is behind them is below AA: 4.5, or 3 for large ones.
FAINT = """() => {
  const channel = (value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const known = new Map();
  const read = (colour) => {
    if (!known.has(colour)) known.set(colour, measured(colour));
    return known.get(colour);
  };
  const measured = (colour) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return { a, light: 0.2126 * channel(r / 255) + 0.7152 * channel(g / 255) + 0.0722 * channel(b / 255) };
  };
  const found = [];
  for (const node of document.querySelectorAll("body *")) {
    const text = [...node.childNodes].filter((one) => one.nodeType === 3).map((one) => one.data.trim()).join("");
    const left = ".visually-hidden, .skip, :disabled, script, noscript";
    if (!text || !node.checkVisibility() || node.closest(left)) continue;
    const style = getComputedStyle(node);
    const colour = read(node instanceof SVGElement ? style.fill : style.color);
    let behind = null;
    for (let at = node; at && !behind; at = at.parentElement) {
      const one = at instanceof SVGElement ? null : read(getComputedStyle(at).backgroundColor);
      if (one && one.a === 255) behind = one;
    }
    const [high, low] = [colour.light, behind.light].sort((a, b) => b - a);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.6 && parseInt(style.fontWeight, 10) >= 700);
    const contrast = (high + 0.05) / (low + 0.05);
    if (contrast < (large ? 3 : 4.5)) found.push(`${text}: ${contrast.toFixed(2)}`);
  }
  return [...new Set(found)];
}"""
# Tables that are wider than what is in sight of them.
CUT = """() => [...document.querySelectorAll(".scroll")]
  .filter((one) => one.checkVisibility() && one.scrollWidth > one.clientWidth).map((one) => one.ariaLabel || one.id)"""
# What is on paper, and which rows of it.
ON_PAPER = """() => [...document.querySelectorAll("section.view table.sortable")]
  .filter((one) => one.checkVisibility()).map((one) => [one.caption.textContent, one.tBodies[0].rows.length])"""


@pytest.fixture(scope="module")
def report() -> Report:
    return reports.report(200)


def busiest(report: Report) -> str:
    return f"#workload?uid={max(report.workloads, key=lambda one: len(one.attempts)).uid}"


def test_the_overview_has_the_totals_in_money(show: Show, report: Report) -> None:
    text = show(report).view("overview").inner_text()
    total = report.total
    assert total.lost.price is not None
    assert f"${total.lost.price:,.2f}" in text
    assert f"{total.complete} complete · {total.failed} failed" in text
    assert total.used.price is not None
    assert f"Goodput\n{100 * (total.used.price - total.lost.price) / total.used.price:.0f} %" in text
    for loss in ("Bugs", "Disruptions"):
        assert f"{loss}\n${total.lost_to[loss].price:,.2f}" in text


@pytest.mark.parametrize("view", ["overview", "workloads", "namespaces", "nodes", "limits"])
def test_no_column_is_cut_at_1440_pixels(show: Show, report: Report, view: str) -> None:
    page = show(report, f"#{view}", width=1440)
    page.view(view).wait_for()
    assert page.evaluate(CUT) == []


def test_a_narrow_page_has_all_tabs_and_the_reasons_in_sight_and_room_for_a_thumb(show: Show, report: Report) -> None:
    page = show(report, width=400)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate("document.querySelector('nav').scrollWidth <= document.querySelector('nav').clientWidth")
    assert page.evaluate("[...document.querySelectorAll('nav a')].every((one) => one.offsetHeight >= 44)")
    reason = page.view("overview").locator(".ranked td:last-child").first
    box = reason.bounding_box()
    assert box is not None
    assert box["x"] + box["width"] <= 400
    page.go("workloads")
    filters = "[...document.querySelectorAll('#view-workloads .filters :is(input, select)')]"
    assert page.evaluate(f"new Set({filters}.map((one) => one.offsetTop)).size") == 3


def test_numbers_of_attempts_are_at_whole_marks_and_each_chart_says_what_a_bar_is(show: Show) -> None:
    page = show(reports.report(3))
    chart = page.view("overview").locator("#causes-chart")
    marks = [text for text in chart.locator("svg .mark").all_text_contents() if text.replace(",", "").isdigit()]
    assert len(marks) == len(set(marks)) > 1
    assert "each bar is" in chart.inner_text()


def test_without_prices_all_is_in_core_hours(show: Show) -> None:
    report = reports.report(50, prices=False)
    page = show(report)
    text = page.view("overview").inner_text()
    assert "$" not in text
    assert f"{report.total.lost.resources['cpu'] / 3600:,.1f} core-hours" in text
    assert page.page.locator("#measure option").first.inner_text() == "core-hours"


def test_another_unit_can_be_chosen(show: Show, report: Report) -> None:
    page = show(report, "#namespaces")
    page.page.locator("#measure").select_option("nvidia.com/gpu")
    assert "Lost, nvidia.com/gpu hours" in page.view("namespaces").locator("thead").inner_text()
    by_name = {one.name: one.figures.lost.resources.get("nvidia.com/gpu", 0.0) / 3600 for one in report.namespaces}
    assert page.names("namespaces")[0] == max(by_name, key=lambda name: by_name[name])


def test_filters_combine_and_stay_in_the_address(show: Show, report: Report) -> None:
    page = show(report, "#workloads")
    page.page.get_by_label("any state").select_option("Failed")
    page.page.get_by_label("Search in Workloads").fill("train")
    page.until("location.hash.includes('q=train')")
    wanted = {
        one.name for one in report.workloads if one.state == "Failed" and "train" in f"{one.namespace}/{one.name}"
    }
    assert set(page.names("workloads")) == wanted != set()
    page.page.reload()
    page.view("workloads").wait_for()
    assert set(page.names("workloads")) == wanted


def test_a_node_leads_to_the_workloads_that_ran_there(show: Show, report: Report) -> None:
    page = show(report, "#nodes")
    (suspect,) = (one.name for one in report.nodes if one.suspect)
    assert page.names("nodes")[0] == suspect
    page.view("nodes").locator("tbody a").first.click()
    page.view("workloads").wait_for()
    there = {one.name for one in report.workloads if suspect in {attempt.node for attempt in one.attempts}}
    assert set(page.names("workloads")) == there
    page.page.locator(".chip").click()
    page.until("!location.hash.includes('node')")
    assert len(page.names("workloads")) == 50


def test_the_timeline_has_a_lane_for_each_scope_and_a_bar_for_each_attempt(show: Show, report: Report) -> None:
    page = show(report, busiest(report))
    row = max(report.workloads, key=lambda one: len(one.attempts))
    lanes = page.page.locator(".lane .lane-name").all_inner_texts()
    assert sorted(lanes) == sorted({one.scope or "all pods" for one in row.attempts})
    assert page.page.locator(".attempt").count() == len(row.attempts)
    one = row.attempts[0]
    bar = page.page.locator(f".attempt[data-keep='attempt {one.pod}']")
    label = bar.get_attribute("aria-label") or ""
    assert one.node in label
    assert "on-demand" in label if one.capacity == "OnDemand" else "spot" in label


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", ["#overview", "#workloads", "#nodes", "#limits", "#workload"])
def test_each_text_has_the_contrast_of_aa(
    show: Show, report: Report, scheme: Literal["light", "dark"], view: str
) -> None:
    assert show(report, busiest(report) if view == "#workload" else view, scheme=scheme).evaluate(FAINT) == []


def test_the_colours_follow_the_system_until_the_switch_is_used(show: Show, report: Report) -> None:
    page = show(report, scheme="dark")
    colour = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(colour)
    page.page.locator("#theme").select_option("light")
    light = page.evaluate(colour)
    assert light != dark
    page.page.reload()
    page.view("overview").wait_for()
    assert page.evaluate(colour) == light


@pytest.mark.parametrize("view", ["#overview", "#workloads", "#nodes", "#workload"])
def test_a_narrow_window_scrolls_tables_and_not_the_page(show: Show, report: Report, view: str) -> None:
    page = show(report, busiest(report) if view == "#workload" else view, width=360)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_on_paper_are_all_tables_and_no_controls(show: Show, report: Report) -> None:
    page = show(report, "#zones")
    page.evaluate(f"addEventListener('beforeprint', () => {{ window.paper = ({ON_PAPER})(); }})")
    pdf = page.page.pdf()
    assert pdf.startswith(b"%PDF")
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) > 3
    page.page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    printed: dict[str, int] = dict(page.evaluate(ON_PAPER))
    assert printed == {
        "Workloads": 100,
        "Namespaces": len(report.namespaces),
        "Profiles": len(report.profiles),
        "Nodes": len(report.nodes),
        "Zones": len(report.zones),
        "Workloads close to their limits": len(report.near_limit),
    }
    assert [one[0] for one in page.evaluate("window.paper")] == list(printed)  # Chromium's own printing makes them too
    assert not page.page.locator(".controls, nav, .filters, .pager button").filter(visible=True).count()
    assert page.page.locator("#lost-chart svg").is_visible()
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    page.page.emulate_media(media="screen")
    page.go("workloads")
    assert len(page.names("workloads")) == 50


def test_one_workload_is_printed_alone(show: Show, report: Report) -> None:
    page = show(report, busiest(report))
    page.page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert [caption.split(" of ")[0] for caption, _ in page.evaluate(ON_PAPER)] == ["Attempts"]


def test_an_empty_report_says_so_in_each_view(show: Show) -> None:
    page = show(reports.empty())
    assert page.view("overview").get_by_text("Nothing to show for this time.").count() == 3
    for view, words in (("workloads", "No workload matches."), ("nodes", "Nothing to show."), ("limits", "No running")):
        page.go(view)
        assert words in page.view(view).inner_text()
    page.go("workload?uid=unknown")
    assert "This workload is not in the report." in page.view("workload").inner_text()


@pytest.mark.parametrize(
    ("changed", "words"),
    [({"version": 2}, "reports of version 1"), (None, "cannot be read")],
    ids=["another version", "not JSON"],
)
def test_a_report_that_the_page_cannot_read_is_an_error_in_words(
    browser: Any, tmp_path: Any, report: Report, changed: dict[str, int] | None, words: str
) -> None:
    from tests.page.conftest import pages  # noqa: PLC0415
    from webhook.insight.page.render import render  # noqa: PLC0415

    text = render(report)
    text = text.replace('"version":1', '"version":2') if changed else text.replace('id="report">{', 'id="report">{{')
    file = tmp_path / "broken.html"
    file.write_text(text)
    with pages(browser) as opened:
        page = opened(file.as_uri())
        assert words in page.page.get_by_role("alert").inner_text()
