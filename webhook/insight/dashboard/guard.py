"""Who may see the dashboard: only the browser that opened the address that was printed, and only its own pages.

Other pages in the same browser can send requests to this machine, also under a name of their own that leads here (DNS
rebinding), and other users of this machine can reach its ports.
"""

import hmac
import secrets
from http import HTTPStatus
from typing import Final

from aiohttp import hdrs, web

from webhook.insight.page.render import STRICT

TOKEN: Final = "token"  # noqa: S105 - the name of the parameter
AGAIN: Final = "start `retry-policy dashboard` again, and open the address that it prints"
HEADERS: Final = {
    "Content-Security-Policy": (
        f"{STRICT}; script-src 'self'; style-src 'self'; connect-src 'self'; frame-ancestors 'none'"
    ),
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Server": "retry-policy",
}
# The first response: it leaves the address with the token at once. A redirection would, after a click in a page of
# another site, arrive without the cookie, which is for requests of this site alone.
ENTER: Final = (
    '<!doctype html><html lang="en"><meta http-equiv="refresh" content="0; url=/"><title>Retry report</title>'
)


class Guard:
    """The address, the token that opens it once, and the cookie that the browser gets for it."""

    def __init__(self, port: int) -> None:
        self.hosts = frozenset({f"127.0.0.1:{port}", f"localhost:{port}"})
        self.cookie = f"retry-policy-dashboard-{port}"  # browsers share cookies between the ports of a host
        self.token: str | None = secrets.token_urlsafe(32)
        self.session = secrets.token_urlsafe(32)
        self.address = f"http://127.0.0.1:{port}/?{TOKEN}={self.token}"

    def refusal(self, request: web.BaseRequest) -> tuple[int, str] | None:
        """Return the status and the reason if a request must not be answered; None if it may be."""
        if request.method != hdrs.METH_GET:
            return HTTPStatus.METHOD_NOT_ALLOWED, "the dashboard only shows: GET is the only method"
        if request.headers.getall(hdrs.HOST, []) not in [[host] for host in self.hosts]:
            return HTTPStatus.FORBIDDEN, f"the header Host names another host; open http://{min(self.hosts)}/"
        origins = request.headers.getall(hdrs.ORIGIN, [])
        if origins not in ([], [f"http://{request.headers[hdrs.HOST]}"]):
            return HTTPStatus.FORBIDDEN, "the request comes from a page of another origin"
        if not is_own(request):
            return HTTPStatus.FORBIDDEN, "the request comes from a page of another site"
        return None

    def admits(self, request: web.BaseRequest) -> bool:
        """Return True if the request has the cookie of this dashboard."""
        return same(request.cookies.get(self.cookie, ""), self.session)

    def enter(self, request: web.BaseRequest) -> web.Response:
        """Return the cookie for the token, which is good for once; a refusal for another token."""
        if self.token is None or not same(request.query[TOKEN], self.token):
            return refused(HTTPStatus.FORBIDDEN, f"this address was used already, or is not this dashboard's; {AGAIN}")
        self.token = None
        response = web.Response(text=ENTER, content_type="text/html", charset="utf-8")
        response.set_cookie(self.cookie, self.session, httponly=True, samesite="Strict", path="/")
        return response


def is_own(request: web.BaseRequest) -> bool:
    """Return True if a browser says that a page of ours, or the user, sends a request; or if no browser says anything.

    A link in another page may lead the user here, as the main page of a tab, but loads no part of the dashboard.
    """
    site = request.headers.get("Sec-Fetch-Site", "none")
    leads = request.headers.get("Sec-Fetch-Mode") == "navigate" and request.headers.get("Sec-Fetch-Dest") == "document"
    return site in {"none", "same-origin"} or (leads and request.path == "/")


def same(given: str, wanted: str) -> bool:
    """Compare secrets in a time that does not depend on them."""
    return hmac.compare_digest(given.encode(errors="replace"), wanted.encode())


def refused(status: int, reason: str) -> web.Response:
    """Return a refusal, one line of text."""
    return web.Response(status=status, text=f"{reason}\n", content_type="text/plain", charset="utf-8")
