"""Which requests the dashboard answers."""

import pytest
from aiohttp.test_utils import make_mocked_request

from webhook.insight.dashboard import Guard

HOST = "127.0.0.1:4711"


def refusal(method: str = "GET", path: str = "/report", **headers: str) -> str | None:
    """Return why a request is refused; `headers`: with _ for -."""
    named = {"Host": HOST, **{name.replace("_", "-"): value for name, value in headers.items()}}
    found = Guard(4711).refusal(make_mocked_request(method, path, headers=named))
    return None if found is None else found[1]


def test_a_browser_on_this_machine_is_answered() -> None:
    assert refusal() is None
    assert refusal(Host="localhost:4711") is None
    assert refusal(Origin=f"http://{HOST}", Sec_Fetch_Site="same-origin", Sec_Fetch_Mode="cors") is None
    assert refusal(path="/", Sec_Fetch_Site="none", Sec_Fetch_Mode="navigate", Sec_Fetch_Dest="document") is None


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:4711", "127.0.0.1", "127.0.0.1:80", "[::1]:4711", "127.0.0.1:4711.evil.example", ""],
)
def test_another_host_is_refused_as_dns_rebinding_would_send_it(host: str) -> None:
    assert "another host" in str(refusal(Host=host))


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://127.0.0.1:4711", "http://localhost:4711", ""]
)
def test_another_origin_is_refused(origin: str) -> None:
    assert "another origin" in str(refusal(Origin=origin))


@pytest.mark.parametrize("site", ["cross-site", "same-site", "surprise"])
@pytest.mark.parametrize(
    ("mode", "destination", "path"),
    [
        ("no-cors", "script", "/page.js"),
        ("no-cors", "empty", "/report"),
        ("navigate", "iframe", "/"),
        ("navigate", "document", "/report"),
    ],
)
def test_a_part_that_another_page_loads_is_refused(site: str, mode: str, destination: str, path: str) -> None:
    """Another port of this machine is the same site: its cookies come along."""
    found = refusal(path=path, Sec_Fetch_Site=site, Sec_Fetch_Mode=mode, Sec_Fetch_Dest=destination)
    assert "another site" in str(found)


def test_a_link_in_another_page_may_lead_here() -> None:
    headers = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "document"}
    assert refusal(path="/?token=x", **headers) is None


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"])
def test_no_other_method_is_answered(method: str) -> None:
    assert "GET is the only method" in str(refusal(method))


def test_the_token_is_good_for_once_and_the_cookie_from_then_on() -> None:
    guard = Guard(4711)
    path = guard.address.removeprefix("http://127.0.0.1:4711")
    wrong = guard.enter(make_mocked_request("GET", "/?token=wrong"))
    assert (wrong.status, wrong.cookies) == (403, {})
    entered = guard.enter(make_mocked_request("GET", path))
    assert entered.status == 200
    (cookie,) = entered.cookies.values()
    assert (cookie["samesite"], cookie["httponly"], cookie["path"]) == ("Strict", True, "/")
    assert cookie.value not in guard.address
    assert guard.enter(make_mocked_request("GET", path)).status == 403
    assert guard.admits(make_mocked_request("GET", "/", headers={"Cookie": f"{cookie.key}={cookie.value}"}))
    assert not guard.admits(make_mocked_request("GET", "/", headers={"Cookie": f"{cookie.key}=é"}))
    assert not guard.admits(make_mocked_request("GET", "/"))
