"""A relay between a server and the API that a test can cut: `python -m tests.faults.relay PORT_OF_THE_API`."""

import asyncio
import sys

from tests.cut import Relay, relaying
from tests.faults.lines import Commands, obey


def commands(relay: Relay) -> Commands:
    async def port() -> int:
        return relay.port

    async def cut() -> None:
        relay.cut()

    async def mend() -> None:
        relay.mend()

    return {"port": port, "cut": cut, "mend": mend}


if __name__ == "__main__":
    with relaying(int(sys.argv[1])) as only:
        asyncio.run(obey(commands(only)))
