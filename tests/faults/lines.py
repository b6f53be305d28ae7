"""How the programs beside a test are told what to do: one JSON list `[COMMAND, ARGUMENT, …]` a line, one answer a line.

They are programs of their own so that the test's process stays free of threads, which `Processes` needs where it forks,
and so that a test that computes does not slow them down. They end with their stdin.
"""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

Commands = Mapping[str, Callable[..., Awaitable[Any]]]


async def obey(commands: Commands) -> None:
    """Carry out what stdin says, one command after the other, until it ends."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        name, *arguments = json.loads(line)
        sys.stdout.write(json.dumps(await commands[name](*arguments)) + "\n")
        sys.stdout.flush()
