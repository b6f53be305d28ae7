"""Takes the pictures of the page in docs/how-to: python -m tests.page."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Literal

from playwright.sync_api import Browser, sync_playwright

from hack.site.screenshot import chromium
from tests import reports
from tests.page.opened import Opened
from webhook.insight.page.render import render

FOLDER: Final = Path(__file__).parents[2] / "docs" / "how-to"
Scheme = Literal["light", "dark"]


def main() -> None:
    """Write the pictures of the overview and of one workload."""
    report = reports.report(300)
    workload = next(one for one in report.workloads if one.kind == "JobSet" and len(one.attempts) > 8)
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = Path(folder) / "report.html"
        file.write_text(render(report), encoding="utf-8")
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        picture(browser, file.as_uri(), "light", 980, FOLDER / "report-overview.png")
        picture(browser, f"{file.as_uri()}#workload?uid={workload.uid}", "dark", 800, FOLDER / "report-workload.png")
        browser.close()


def picture(browser: Browser, address: str, scheme: Scheme, height: int, file: Path) -> None:
    """Write the picture of a view."""
    context = browser.new_context(color_scheme=scheme, viewport={"width": 1280, "height": height})
    page = Opened(context, address)
    page.page.screenshot(path=file)
    print(f"{file}: {file.stat().st_size // 1024} KiB")  # noqa: T201 - says what was written
    context.close()


if __name__ == "__main__":
    main()
