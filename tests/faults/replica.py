"""A replica for tests: its certificates can be short-lived, its clock can be set, and it can die at a write to the API.

`python -m tests.faults.replica [OPTIONS] -- serve …` starts like `retry-policy serve …`.
"""

import argparse
import asyncio
import importlib
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any, Self

from certs.rotate import Lifetimes
from tests.faults import raising
from webhook.cli import main as cli
from webhook.controller import app as controller
from webhook.kube import lease
from webhook.kube.client import Api
from webhook.kube.clock import utc_now
from webhook.serving import app

WRITES = ("create", "replace", "patch")
DEFAULT = Lifetimes()
INTERVAL = 0.002
HELD = "a write is held back"  # a line in the log


def main() -> None:
    options = parsed()
    if options.begin is not None:
        wait_for(options.begin)
    clock: Path | None = options.clock
    lifetimes = Lifetimes(authority=options.authority, leaf=options.leaf, announcement=options.announcement)
    serve, control = app.serve, controller.control

    def now() -> datetime:
        behind = 0.0 if clock is None else float(clock.read_text())
        return utc_now() - timedelta(seconds=behind)

    async def serve_with_ours(chosen: app.ServeOptions) -> None:
        await serve(chosen, now=now)

    async def control_with_ours(chosen: controller.ControlOptions, _: Lifetimes) -> None:
        await control(chosen, lifetimes, now=now)

    class Clock(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            behind = 0.0 if clock is None else float(clock.read_text())
            return super().now(tz) - timedelta(seconds=behind)

    lease.datetime = Clock  # type: ignore[attr-defined]
    app.serve = serve_with_ours  # type: ignore[assignment]
    controller.control = control_with_ours  # type: ignore[assignment]
    watch_writes(options.slow, options.hold, options.die)
    if options.raising is not None:
        raising.install(options.raising)
    cli.main(options.command)


def wait_for(file: Path) -> None:
    """Wait until a file exists, with everything imported that the server imports."""
    importlib.import_module("kubernetes.aio.client")
    while not file.exists():
        time.sleep(INTERVAL)


def watch_writes(slow: float, hold: Path | None, die: str | None) -> None:
    """Delay each write by `slow` seconds and while the file `hold` exists; die `before:N` or `after:N`.

    N is the number of a write, from 1. Rejected writes are not counted, and neither are writes of Events and Leases,
    which do not matter for certificates.
    """
    done = 0

    def watched(write: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def watched_write(api: Api, path: str, *arguments: Any, **options: Any) -> Any:
            nonlocal done
            if path.endswith("/events") or "/leases" in path:
                return await write(api, path, *arguments, **options)
            await asyncio.sleep(slow)
            if hold is not None and hold.exists():  # noqa: ASYNC240 - another process deletes it
                sys.stderr.write(f"{HELD}\n")
            while hold is not None and hold.exists():  # noqa: ASYNC110, ASYNC240 - another process deletes it
                await asyncio.sleep(INTERVAL)
            if die == f"before:{done + 1}":
                os.kill(os.getpid(), signal.SIGKILL)
            answer = await write(api, path, *arguments, **options)
            done += 1
            if die == f"after:{done}":
                os.kill(os.getpid(), signal.SIGKILL)
            return answer

        return watched_write

    for name in WRITES:
        setattr(Api, name, watched(getattr(Api, name)))


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.replica", description=__doc__)
    for name in ("authority", "leaf", "announcement"):
        default = getattr(DEFAULT, name)
        parser.add_argument(f"--{name}", type=lambda text: timedelta(seconds=float(text)), default=default)
    parser.add_argument("--clock", type=Path, help="a file that says by how many seconds the clock is behind")
    parser.add_argument("--begin", type=Path, help="do nothing before this file exists")
    parser.add_argument("--slow", type=float, default=0.0, help="seconds that each write waits")
    parser.add_argument("--hold", type=Path, help="while this file exists, writes wait")
    parser.add_argument("--die", help="before:N or after:N")
    parser.add_argument("--raising", type=Path, help="a folder: see tests/faults/raising.py")
    parser.add_argument("command", nargs="+", help="serve or control and its options, after --")
    return parser.parse_args()


if __name__ == "__main__":
    main()
