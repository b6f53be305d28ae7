"""The dashboard in a browser: live, and closed to other pages."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests import reports
from tests.awaiting import LONGEST
from tests.page.conftest import pages
from webhook.insight.dashboard import dashboard
from webhook.insight.report.model import Report
from webhook.kube.client import ApiError

REPORT = reports.report(200)
# What a page of another origin may try: each entry says what it got.
TRIES = """async (base) => {
  const element = (tag, address) => new Promise((done) => {
    const node = document.createElement(tag);
    Object.assign(node, tag === "link" ? { rel: "stylesheet", href: address } : { src: address });
    node.onload = () => done("loaded"); node.onerror = () => done("refused"); document.body.append(node);
  });
  const got = (options) => fetch(`${base}/report`, options).then((one) => one.type, () => "refused");
  return {
    fetch: await got({ credentials: "include" }),
    opaque: await got({ credentials: "include", mode: "no-cors" }),
    script: await element("script", `${base}/page.js`),
    style: await element("link", `${base}/page.css`),
    events: await new Promise((done) => {
      const source = new EventSource(`${base}/events`, { withCredentials: true });
      source.onopen = () => done("open"); source.onerror = () => done("refused");
    }),
    frame: await new Promise((done) => {
      const frame = Object.assign(document.createElement("iframe"), { src: `${base}/` });
      frame.onload = () => { try { done(frame.contentDocument?.body ? "read" : "closed"); } catch { done("closed"); } };
      document.body.append(frame);
    }),
  };
}"""


class Live:
    """A dashboard whose report a test replaces."""

    def __init__(self) -> None:
        self.answer: Report | ApiError = REPORT
        self.address = ""

    async def read(self) -> Report:
        if isinstance(self.answer, ApiError):
            raise self.answer
        return self.answer


@pytest.fixture
def live(monkeypatch: pytest.MonkeyPatch) -> Iterator[Live]:
    """Run a dashboard in a thread."""
    monkeypatch.setattr("webhook.insight.dashboard.EVERY", 0.05)
    found, ready = Live(), threading.Event()
    loop = asyncio.new_event_loop()
    end = asyncio.Event()

    async def serve() -> None:
        async with dashboard(found.read, 0) as found.address:
            ready.set()
            await end.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    assert ready.wait(LONGEST)
    yield found
    loop.call_soon_threadsafe(end.set)
    thread.join(20)
    loop.close()


@contextmanager
def foreign() -> Iterator[str]:
    """Serve an empty page at another port of this machine; yield its address."""

    class Empty(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><link rel=icon href='data:,'><section class=view>other</section>")

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Empty)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_the_address_opens_the_page_and_the_token_leaves_it(browser: Browser, live: Live) -> None:
    with pages(browser) as opened:
        page = opened(live.address)
        page.page.locator("#view-overview").wait_for()
        assert page.page.url == live.address.partition("?")[0]
        page.until("document.querySelector('#live').textContent.startsWith('Live, as of')")
        page.page.reload()
        page.page.locator("#view-overview").wait_for()


def test_an_update_keeps_view_filter_order_page_focus_and_scroll(browser: Browser, live: Live) -> None:
    with pages(browser) as opened:
        page = opened(live.address)
        page.page.locator("#view-overview").wait_for()
        page.go("workloads?namespace=ml-training")
        page.view("workloads").locator("thead button").first.click()
        page.view("workloads").locator("tbody a").nth(12).focus()
        page.evaluate("scrollTo(0, 240)")
        before = (page.names("workloads"), page.focused(), page.evaluate("scrollY"), page.evaluate("location.hash"))
        size = page.page.locator("nav a[aria-current] .size").inner_text()
        more = reports.report(200)
        more.workloads = more.workloads[:-1] if more.workloads[-1].name not in before[0] else more.workloads[1:]
        live.answer = more
        page.until(f"document.querySelector('nav a[aria-current] .size').textContent !== '{size}'")
        after = (page.names("workloads"), page.focused(), page.evaluate("scrollY"), page.evaluate("location.hash"))
        assert set(after[0]) <= set(before[0])
        assert after[0] == sorted(after[0])
        assert after[1:] == before[1:]


def test_an_update_keeps_the_place_and_the_bar_that_is_read_on_the_overview(browser: Browser, live: Live) -> None:
    with pages(browser) as opened:
        page = opened(live.address)
        page.page.locator("#view-overview").wait_for()
        page.evaluate("document.querySelector('#causes-chart svg').focus()")
        page.press("Home")
        page.evaluate("scrollTo(0, 200)")
        size = page.page.locator("nav .size").first.inner_text()
        live.answer = reports.report(190)
        page.until(f"document.querySelector('nav .size').textContent !== '{size}'")
        assert page.evaluate("scrollY") == 200
        assert page.evaluate("document.activeElement.closest('figure').id") == "causes-chart"
        assert page.page.locator("#causes-chart .readout").inner_text().startswith("16 Nov 00:00")


def test_an_update_does_not_disturb_a_search_that_is_typed(browser: Browser, live: Live) -> None:
    with pages(browser) as opened:
        page = opened(live.address)
        page.page.locator("#view-overview").wait_for()
        page.go("workloads")
        page.page.get_by_label("Search in Workloads").focus()
        page.page.keyboard.type("trai")
        size = page.page.locator("nav a[aria-current] .size").inner_text()
        live.answer = reports.report(190)
        page.until(f"document.querySelector('nav a[aria-current] .size').textContent !== '{size}'")
        page.page.keyboard.type("n-")
        page.until("location.hash.endsWith('q=train-')")
        assert page.page.get_by_label("Search in Workloads").input_value() == "train-"
        assert all(name.startswith("train-") for name in page.names("workloads"))


def test_a_problem_is_told_and_the_last_report_stays(browser: Browser, live: Live) -> None:
    with pages(browser) as opened:
        page = opened(live.address)
        page.page.locator("#view-overview").wait_for()
        live.answer = ApiError(500, "etcd is <b>busy</b>")
        page.until("document.querySelector('#alert').textContent.includes('etcd is <b>busy</b>')")
        assert page.page.locator("#view-overview").is_visible()
        live.answer = REPORT
        page.until("document.querySelector('#alert').hidden")


def test_a_report_that_the_user_may_no_longer_read_leaves_the_page(browser: Browser, live: Live) -> None:
    with pages(browser) as opened:
        page = opened(live.address)
        page.page.locator("#view-overview").wait_for()
        page.go("workloads")
        live.answer = ApiError(403, "jobs is forbidden")
        page.until("document.querySelector('#alert').textContent.includes('jobs is forbidden')")
        page.page.locator("section.view").wait_for(state="detached")
        assert REPORT.workloads[0].name not in page.page.content()
        live.answer = REPORT
        page.view("workloads").wait_for()
        assert len(page.names("workloads")) == 50


def test_hostile_names_do_nothing_in_the_dashboard(browser: Browser, live: Live) -> None:
    live.answer = reports.report(60, hostile=True)
    with pages(browser) as opened:
        page = opened(live.address)
        page.page.locator("#view-overview").wait_for()
        for view in ("workloads", "namespaces", "nodes", "profiles"):
            page.go(view)
        assert "<script>alert(1)</script>" in page.names("profiles")


def test_a_page_of_another_origin_gets_nothing_though_the_browser_has_the_cookie(browser: Browser, live: Live) -> None:
    base = live.address.partition("/?")[0]
    with pages(browser) as opened, foreign() as other:
        page = opened(live.address)
        page.page.locator("#view-overview").wait_for()
        tab = page.context.new_page()
        tab.goto(other)
        got: dict[str, Any] = tab.evaluate(TRIES, base)
        assert got == {
            "fetch": "refused",
            "opaque": "refused",
            "script": "refused",
            "style": "refused",
            "events": "refused",
            "frame": "closed",
        }
        page.wrong.clear()  # the tries themselves


def test_another_browser_gets_nothing_without_the_token_nor_with_a_used_one(browser: Browser, live: Live) -> None:
    with pages(browser) as opened:
        page = opened(live.address)
        page.page.locator("#view-overview").wait_for()
    stranger = browser.new_context().new_page()
    for address in (live.address, live.address.partition("?")[0]):
        answer = stranger.goto(address)
        assert answer is not None
        assert answer.status == 403
    assert "start `retry-policy dashboard` again" in stranger.content()
    stranger.context.close()
