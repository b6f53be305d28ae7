"""Writes into both tutorials what their commands print, and the picture of the day: python -m tests.page.tutorials."""

import re
from typing import Final

from playwright.sync_api import sync_playwright

from hack.site.screenshot import chromium
from tests.cluster.tutorial import PAGE, REAL, STORY, run, steps
from tests.page.__main__ import picture

RESULT: Final = re.compile(r"(?<=\n```\n).*?(?=```)", re.DOTALL)  # the first block, which shows the last command
REPORT: Final = "file:///tmp/report.html"  # a command of the day writes it


def main() -> None:
    """Write both pages, each from a new cluster."""
    text = run(PAGE)
    command, shown = list(steps(text))[-1]
    PAGE.write_text(RESULT.sub(lambda _: f"$ {command}\n{shown}", text, count=1))
    STORY.write_text(run(STORY, REAL))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        picture(browser, REPORT, "light", 720, STORY.with_suffix("") / "report.png")
        browser.close()


if __name__ == "__main__":
    main()
