"""Takes pictures of pages of the built site, in light and dark: `python hack/site/screenshot.py FOLDER [PAGE ...]`.

The browser reaches no host but this machine. It is an error if a page asks for another one, if a file is missing, or if
the search finds nothing, from a server or from the folder.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Final, Literal

from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

if TYPE_CHECKING:
    from playwright.sync_api import Response, Route

SITE: Final = Path(__file__).resolve().parents[2] / "site"
SCHEMES: Final[tuple[Literal["light", "dark"], ...]] = ("light", "dark")
QUERY: Final = "preemption"
VIEWPORT: Final[ViewportSize] = {"width": 1280, "height": 800}


class Quiet(SimpleHTTPRequestHandler):
    """Serves files without a log."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of its parent
        """Print nothing."""


def main() -> None:
    """Take the pictures; exit with a message if something is wrong."""
    folder, *pages = sys.argv[1:]
    if not (SITE / "index.html").exists():
        sys.exit("the site is not built; run: make docs")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=SITE))
    Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/"
    wrong: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        for name in pages or ["index.html"]:
            for scheme in SCHEMES:
                page = opened(browser, address, scheme, wrong)
                page.goto(address + name, wait_until="networkidle")
                file = Path(folder) / f"site-{name.replace('/', '-').removesuffix('.html')}-{scheme}.png"
                page.screenshot(path=file)
                sys.stdout.write(f"{file}: {file.stat().st_size // 1024} KB\n")
                page.context.close()
        for root in (address, f"{SITE.as_uri()}/"):
            search(opened(browser, root, "light", wrong), f"{root}index.html")
        browser.close()
    if wrong:
        sys.exit("\n".join(wrong))


def chromium() -> str:
    """Return the path of Chromium, which is installed as root on Debian; exit with the remedy if there is none."""
    if shutil.which("chromium") is None and os.geteuid() == 0 and platform.freedesktop_os_release()["ID"] == "debian":
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        sys.stderr.write("apt-get install chromium\n")
        for command in (["update"], ["install", "--yes", "--no-install-recommends", "chromium", "fonts-dejavu-core"]):
            subprocess.run(["apt-get", "-qq", *command], env=environment, check=True, stdout=subprocess.DEVNULL)
    return shutil.which("chromium") or sys.exit(
        "Chromium is missing; install it, for example: apt-get install chromium"
    )


def opened(browser: Browser, address: str, scheme: Literal["light", "dark"], wrong: list[str]) -> Page:
    """Return an empty page that reaches this server alone; what goes wrong in it is added to a list."""
    page = browser.new_context(color_scheme=scheme, viewport=VIEWPORT).new_page()

    def only_here(route: Route) -> None:
        if route.request.url.startswith((address, "data:", "blob:")):
            route.continue_()
        else:
            wrong.append(f"{page.url} asks for {route.request.url}")
            route.abort()

    def answered(response: Response) -> None:
        if not response.ok:
            wrong.append(f"{page.url}: {response.url}: {response.status}")

    page.context.route("**/*", only_here)
    page.on("response", answered)
    page.on("pageerror", lambda error: wrong.append(f"{page.url}: {error}"))
    return page


def search(page: Page, address: str) -> None:
    """Search for a word; exit with a message if nothing is found."""
    page.goto(address, wait_until="networkidle")
    page.get_by_placeholder("Search").click()  # the index is loaded only now
    page.wait_for_load_state("networkidle")
    page.get_by_placeholder("Search").press_sequentially(QUERY)
    page.locator(".md-search-result__item").first.wait_for()
    found = page.locator(".md-search-result__meta").inner_text()
    sys.stdout.write(f"{address.partition(':')[0]}: search for {QUERY!r}: {found}\n")


if __name__ == "__main__":
    main()
