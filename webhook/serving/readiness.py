"""Write an Event on the pod that says why it is not ready: only the kubelet reads /readyz, and it drops the reason."""

import asyncio
from collections.abc import Callable
from typing import Final

# As the readinessProbe of the Deployment: seconds between two looks, and how many fail until the pod is not ready.
PERIOD: Final = 2.0
THRESHOLD: Final = 3
REPEATED: Final = 150  # looks until it is told again; the API server keeps an Event for an hour by default


async def report(troubles: Callable[[], list[str]], tell: Callable[[str], None]) -> None:
    """Call `tell` with troubles that have lasted for THRESHOLD looks, and every REPEATED looks, until cancelled."""
    failed = 0
    while True:
        await asyncio.sleep(PERIOD)
        found = troubles()
        failed = failed + 1 if found else 0
        if failed % REPEATED == THRESHOLD:
            tell("; ".join(found))
