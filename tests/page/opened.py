"""A page that is open in the browser, and what went wrong in it."""

from typing import Any, Final

from playwright.sync_api import BrowserContext, ConsoleMessage, Dialog, Locator, Request

# Counts what the policy of the page forbade, and the tasks that kept it from answering for more than 50 ms.
RECORD: Final = """
window.forbidden = []; window.longTasks = [];
document.addEventListener("securitypolicyviolation", (event) => window.forbidden.push(event.violatedDirective));
new PerformanceObserver((list) => {
  for (const one of list.getEntries()) window.longTasks.push([Math.round(one.startTime), Math.round(one.duration)]);
}).observe({ type: "longtask", buffered: true });
"""
LONGEST: Final = 20_000  # milliseconds to wait


class Opened:
    """A page. `wrong` has each dialog, each error on the console, and each request for another address."""

    def __init__(self, context: BrowserContext, address: str) -> None:
        self.context = context
        self.own = address.partition("#")[0]
        self.origin = "/".join(address.split("/")[:3])
        self.wrong: list[str] = []
        self.page = context.new_page()
        self.page.set_default_timeout(LONGEST)
        self.page.add_init_script(RECORD)
        self.page.on("dialog", self.dialog)
        self.page.on("console", self.console)
        self.page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        context.on("request", self.request)
        self.page.goto(address)
        self.page.locator("section.view:visible, #alert:visible, .empty:visible").first.wait_for()

    def dialog(self, dialog: Dialog) -> None:
        self.wrong.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def console(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.wrong.append(f"console: {message.text}")

    def request(self, request: Request) -> None:
        is_own = request.url.partition("#")[0] == self.own if self.own.startswith("file:") else False
        if not is_own and not request.url.startswith("data:") and not self.is_of_dashboard(request.url):
            self.wrong.append(f"request: {request.url}")

    def is_of_dashboard(self, url: str) -> bool:
        return self.origin.startswith("http:") and url.startswith(f"{self.origin}/")

    def problems(self) -> list[str]:
        """Return what went wrong."""
        return [*self.wrong, *(f"forbidden: {one}" for one in self.evaluate("window.forbidden"))]

    def evaluate(self, script: str, argument: Any = None) -> Any:
        return self.page.evaluate(script, argument)

    def until(self, condition: str) -> None:
        """Wait until a condition of JavaScript holds. Playwright's own way needs eval, which the page forbids."""
        waited = self.evaluate(f"""async () => {{
          const end = performance.now() + {LONGEST};
          while (!({condition}) && performance.now() < end) await new Promise(requestAnimationFrame);
          return Boolean({condition});
        }}""")
        assert waited, condition

    def go(self, view: str) -> None:
        """Show a view by its address, as a link in the page does."""
        self.evaluate("(view) => { location.hash = view; }", view)
        self.page.locator(f"#view-{view.partition('?')[0]}").wait_for()

    def view(self, name: str) -> Locator:
        return self.page.locator(f"#view-{name}")

    def heading(self) -> str:
        """Return the heading of the view that is shown."""
        return self.page.locator("section.view:not([hidden]) h2").inner_text()

    def names(self, view: str) -> list[str]:
        """Return the first cell of each row that a view's table shows."""
        return self.view(view).locator(".table tbody th").all_inner_texts()

    def focused(self) -> str:
        """Return what has the focus, in words: its label or its text."""
        return str(self.evaluate("(document.activeElement.ariaLabel || document.activeElement.innerText || '').trim()"))

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def tab_to(self, selector: str, most: int = 60) -> None:
        """Press Tab until an element that the selector selects has the focus."""
        for _ in range(most):
            self.press("Tab")
            if self.evaluate("(selector) => document.activeElement.matches(selector)", selector):
                return
        raise AssertionError(f"{most} times Tab do not reach {selector}; the last was {self.focused()!r}")

    def nodes(self) -> int:
        """Return the number of elements in the page."""
        return int(self.evaluate("document.getElementsByTagName('*').length"))
