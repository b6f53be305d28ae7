"""The workloads that the leader has to look at, in the order in which their time comes."""

import asyncio

from webhook.ledger.model.tracker import Key


class WorkQueue:
    """Workloads to look at, each queued at most once; takes none while it is closed, as it is at first.

    As the work queue of client-go: one that is worked on is not given out a second time until that is done.
    """

    def __init__(self) -> None:
        self.ready: asyncio.Queue[tuple[Key, object]] = asyncio.Queue()
        self.queued: dict[Key, object] = {}  # with what tells a turn from an earlier one that was discarded
        self.busy: set[Key] = set()  # given out, and not done
        self.held: set[Key] = set()  # due, and busy
        self.is_open = False

    def open(self) -> None:
        """Take workloads from now on."""
        self.is_open = True

    def close(self) -> None:
        """Forget all workloads, those included whose time has not come, and take none from now on."""
        self.is_open = False
        self.ready = asyncio.Queue()  # the timers of those whose time has not come put them in the old one
        self.queued, self.busy, self.held = {}, set(), set()

    def add(self, key: Key, after: float) -> None:
        """Queue a workload in so many seconds, unless it is queued."""
        if self.is_open and key not in self.queued:
            turn = self.queued[key] = object()
            asyncio.get_running_loop().call_later(after, self.ready.put_nowait, (key, turn))

    def discard(self, key: Key) -> None:
        """Let a workload be queued anew, as one that is created under the name of another that is gone."""
        self.queued.pop(key, None)
        self.held.discard(key)

    async def get(self) -> Key:
        """Wait for the next workload, and take it out; from then on it can be queued again. `done` must follow."""
        while True:
            key, turn = await self.ready.get()
            if self.queued.get(key) is not turn:
                continue
            if key not in self.busy:
                break
            self.held.add(key)
        del self.queued[key]
        self.busy.add(key)
        return key

    def done(self, key: Key, pause: float | None = None) -> None:
        """Take in that a workload is not worked on any more.

        `pause`: seconds after which it is to be looked at next, and not before, whatever was queued meanwhile.
        """
        self.busy.discard(key)
        if pause is not None:
            self.discard(key)
            self.add(key, pause)
        elif key in self.held:
            self.held.discard(key)
            self.ready.put_nowait((key, self.queued[key]))
