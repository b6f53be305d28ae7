"""Every command that reads objects, run in this process over what is stored, and whether it ends as it may."""

from __future__ import annotations

import contextlib
import gzip
import signal
import subprocess
import traceback
import urllib.request
from http.cookiejar import CookieJar
from typing import TYPE_CHECKING, NoReturn

from tests.cluster import command_line
from tests.served import COMMAND

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

ALLOWED = (0, 1, 2)
LONGEST = 120  # seconds, after which a command counts as one that does not end
LINES = 25  # of a traceback
OURS = ("Traceback", "Error: unexpected ")  # in what a process says of an error of ours
CHECK_FORMS = ("text", "json", "sarif", "junit", "github")
REPORT_FORMS = ("text", "json", "csv", "html")


def lines(
    namespaces: Sequence[str], objects: Sequence[str], dump: Path, policy: Path, log: Path
) -> Iterator[list[str]]:
    """Yield the command lines.

    `objects`: as `explain` takes them, NAMESPACE/KIND/NAME. `dump`: a file with a List of all objects. `log`: that of
    the controller, which has its records.
    """
    for form in REPORT_FORMS:
        yield ["report", "-o", form]
        yield ["report", "-o", form, "--history", str(log)]
    replay = ["--policy", str(policy), "--replications", "2"]
    yield ["simulate", *replay]
    yield ["simulate", *replay, "-o", "json", "--history", str(log)]
    yield ["simulate", *replay, "-f", str(dump)]
    yield ["doctor"]
    yield ["doctor", "-o", "json"]
    for namespace in namespaces:
        yield ["doctor", "-n", namespace]
        yield ["report", "-n", namespace]
        yield ["retry", f"{namespace}/job", "-l", "team=ml", "--dry-run"]
    yield ["audit", "-A", "--names"]
    yield ["audit"]
    for form in CHECK_FORMS:
        yield ["check", "-f", str(dump), "-o", form, "--policy", str(policy)]
    for form in ("yaml", "json", "diff"):
        yield ["render", "-f", str(dump), "-o", form, "--policy", str(policy)]
    for name in objects:
        yield ["explain", name]
        yield ["explain", name, "-o", "json"]
        namespace, _, short = name.partition("/")
        yield ["doctor", "-n", namespace, short]
        yield ["retry", name, "--dry-run"]
    yield ["explain", "-f", str(dump), objects[0]]


def trouble(arguments: Sequence[str]) -> str | None:
    """Run a command; return how it ended if it may not end so: with a traceback, another status, or not at all."""
    said = f"retry-policy {' '.join(arguments)}"
    try:
        with alarm():
            done = command_line.run(*arguments)
    except Exception:  # noqa: BLE001 - any of them is what a user would see as a traceback
        return f"{said}\n" + "\n".join(traceback.format_exc().splitlines()[-LINES:])
    if done.exit_code not in ALLOWED or "Traceback (most recent call last)" in done.stderr:
        return f"{said}: exit status {done.exit_code}\n{done.stderr[-2_000:]}"
    return None


class NeverEndsError(Exception):
    """A command has computed for LONGEST seconds."""


@contextlib.contextmanager
def alarm() -> Iterator[None]:
    def ring(_number: int, _frame: object) -> NoReturn:
        raise NeverEndsError

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(LONGEST)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def trouble_of_dashboard(log: Path) -> str | None:
    """Start the dashboard, open its page, read its report, and end it as Ctrl-C does."""
    with (
        log.open("w") as errors,
        subprocess.Popen((COMMAND, "dashboard"), stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        assert process.stdout is not None
        address, problem = process.stdout.readline().strip(), None
        try:
            opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
            opener.open(address, timeout=LONGEST).read()
            stream, name = opener.open(f"{address.partition('/?')[0]}/events", timeout=LONGEST), b""
            while name.strip() not in {b"event: checked", b"event: report"}:
                name = stream.readline()
                assert name, "the stream of events ended"
            report = opener.open(f"{address.partition('/?')[0]}/report", timeout=LONGEST).read()
            assert gzip.decompress(report) if report[:2] == b"\x1f\x8b" else report
            stream.close()
        except (AssertionError, OSError, ValueError) as error:
            problem = repr(error)
        process.send_signal(signal.SIGINT)
        status = process.wait(LONGEST)
    text = log.read_text(errors="replace")
    if problem or status not in ALLOWED or any(mark in text for mark in OURS):
        return f"retry-policy dashboard: {problem}, exit status {status}\n{text[-2_000:]}"
    return None
