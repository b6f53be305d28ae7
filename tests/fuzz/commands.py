"""Every command that reads objects, run in this process over what is stored, and whether it ends as it may."""

from __future__ import annotations

import contextlib
import gzip
import signal
import subprocess
import traceback
import urllib.request
from http.cookiejar import CookieJar
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from tests.awaiting import LONGEST
from tests.cluster import command_line
from tests.served import COMMAND

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

ALLOWED = (0, 1, 2)
LINES = 25  # of a traceback
OURS = ("Traceback", "Error: unexpected ")  # in what a process says of an error of ours
LEFT_OUT = " is left out: "
UNUSABLE = 2
# What a command says of a kind without an account, and of a file that is larger than it reads.
REFUSED = ("are not counted; see how its pods ended", "holds more than 1,000,000 objects and lists; split it")
CHECK_FORMS = ("text", "json", "sarif", "junit", "github")
REPORT_FORMS = ("text", "json", "csv", "html")


class Line(NamedTuple):
    """A command line. `good`: what it says of objects that nobody has mutated; `about`: the object or file asked for.

    Empty if it says nothing of them, or is about no single one.
    """

    arguments: tuple[str, ...]
    good: str = ""
    about: str = ""


def line(*arguments: str | Path, good: str = "", about: str = "") -> Line:
    return Line(tuple(map(str, arguments)), good, about)


def lines(  # noqa: PLR0917 - what there is
    namespaces: Sequence[str], objects: Sequence[str], dump: Path, policy: Path, log: Path, good: str, host: str
) -> Iterator[Line]:
    """Yield the command lines.

    `objects`: as `explain` takes them, NAMESPACE/KIND/NAME, first those that nobody has mutated. `dump`: a file with a
    List of all objects. `log`: that of the controller, which has its records. `good`: the name of a Job that has
    failed; `host`: of one in each namespace.
    """
    for form in REPORT_FORMS:
        yield line("report", "-o", form, good="" if form == "text" else good)
        yield line("report", "-o", form, "--history", log, good="" if form == "text" else good)
    replay = ("--policy", policy, "--replications", "2")
    yield line("simulate", *replay, good="workloads from ")
    yield line("simulate", *replay, "-o", "json", "--history", log, about="this history")
    yield line("simulate", *replay, "-f", dump, about="this history")
    yield line("doctor", good="Namespaces")
    yield line("doctor", "-o", "json", good='"section"')
    for namespace in namespaces:
        yield line("doctor", "-n", namespace, good=f"Namespace {namespace}")
        yield line("report", "-n", namespace, "-o", "json", good=host if "not-opted-in" not in namespace else "")
        yield line("retry", f"{namespace}/job", "-l", "team=ml", "--dry-run")
    yield line("check", "--cluster", "-A", "--names", good="would be denied, ")
    yield line("check", "--cluster", good="would be denied, ")
    for form in CHECK_FORMS:
        yield line("check", "-f", dump, "-o", form, "--policy", policy, about=str(dump))
    for form in ("yaml", "json", "diff"):
        yield line("render", "-f", dump, "-o", form, "--policy", policy, about=str(dump))
    for name in objects:
        is_good = name.endswith(f"/{host}")
        yield line("explain", name, good=host if is_good else "", about=name)
        yield line("explain", name, "-o", "json", good=host if is_good else "", about=name)
        namespace, _, short = name.partition("/")
        yield line("doctor", "-n", namespace, short, good=short if is_good else "", about=name)
        yield line("retry", name, "--dry-run", about=name)
    yield line("explain", "-f", dump, objects[0], good=host, about=objects[0])
    yield line("explain", "-f", dump, good=host, about=str(dump))


def trouble(one: Line, left_out: set[str]) -> str | None:
    """Run a command; return how it ended if it may not end so: with a traceback, another status, or not at all.

    Nor may it end without a word about what is good, or with the status 2 without naming an object, unless it says that
    it cannot be asked for that. What it leaves out is added to `left_out`.
    """
    arguments, good, about = one
    said = f"retry-policy {' '.join(arguments)}"
    try:
        with alarm():
            done = command_line.run(*arguments)
    except Exception:  # noqa: BLE001 - any of them is what a user would see as a traceback
        return f"{said}\n" + "\n".join(traceback.format_exc().splitlines()[-LINES:])
    named = {said for said in done.stderr.splitlines() if LEFT_OUT in said}
    left_out |= named
    if done.exit_code == UNUSABLE and any(words in done.stderr for words in REFUSED):
        return None
    is_unnamed = done.exit_code == UNUSABLE and not named and (not about or about.rpartition("/")[2] not in done.stderr)
    if done.exit_code not in ALLOWED or is_unnamed or "Traceback (most recent call last)" in done.stderr:
        return f"{said}: exit status {done.exit_code}\n{done.stderr[-2_000:]}"
    if good not in done.stdout:
        return f"{said}: nothing about {good!r}\n{done.stderr[-2_000:]}"
    return None


class NeverEndsError(Exception):
    """A command has computed for LONGEST seconds."""


@contextlib.contextmanager
def alarm() -> Iterator[None]:
    def ring(_number: int, _frame: object) -> NoReturn:
        raise NeverEndsError

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, LONGEST)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
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
