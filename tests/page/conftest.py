"""The browser, and pages in it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, sync_playwright

from hack.site.screenshot import chromium
from tests.page.opened import Opened
from webhook.insight.page.render import render
from webhook.insight.report.model import Report

Show = Callable[..., Opened]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Start Chromium, which is installed as root on Debian."""
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def show(browser: Browser, tmp_path: Path) -> Iterator[Show]:
    """Return a function that opens the page of a report, from a file; what goes wrong in it fails the test."""
    with pages(browser) as opened:

        def shown(
            report: Report, view: str = "", *, scheme: Literal["light", "dark"] = "light", width: int = 1280
        ) -> Opened:
            file = tmp_path / "report.html"
            file.write_text(render(report), encoding="utf-8")
            return opened(f"{file.as_uri()}{view}", scheme=scheme, width=width)

        yield shown


@contextmanager
def pages(browser: Browser) -> Iterator[Callable[..., Opened]]:
    """Yield a function that opens an address in a context of its own; nothing may have gone wrong in the end."""
    all_opened: list[Opened] = []

    def opened(address: str, *, scheme: Literal["light", "dark"] = "light", width: int = 1280) -> Opened:
        context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 800})
        all_opened.append(Opened(context, address))
        return all_opened[-1]

    try:
        yield opened
    finally:
        wrong = [problem for one in all_opened for problem in one.problems()]
        for one in all_opened:
            one.context.close()
    assert wrong == []
