"""Commands for programs that run beside a test: a line with a JSON list `[COMMAND, ARGUMENT, …]`; a line answers it.

They are separate programs so that the test's process has no threads, which `Processes` requires for its forks, and so
that a busy test does not slow them down. They end when their stdin ends.
"""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

Commands = Mapping[str, Callable[..., Awaitable[Any]]]


async def obey(commands: Commands) -> None:
    """Execute the commands on stdin, one after the other, until it ends."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        name, *arguments = json.loads(line)
        sys.stdout.write(json.dumps(await commands[name](*arguments)) + "\n")
        sys.stdout.flush()
