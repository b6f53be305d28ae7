"""The workloads that the leader has to process, in the order in which they are due."""

import asyncio

from webhook.accounts.tracker import Key


class WorkQueue:
    """A queue of workloads, each queued at most once. It is closed at first; while it is closed it ignores `add`.

    It works like the work queue of client-go: `get` does not return a workload again before `done` was called for it.
    """

    def __init__(self) -> None:
        self.ready: asyncio.Queue[tuple[Key, object]] = asyncio.Queue()
        self.queued: dict[Key, object] = {}  # the value distinguishes an entry from an earlier, discarded one
        self.busy: set[Key] = set()  # returned by `get`, and not done
        self.held: set[Key] = set()  # due again, but busy
        self.is_open = False

    def open(self) -> None:
        """Accept workloads from now on."""
        self.is_open = True

    def close(self) -> None:
        """Forget all workloads, also those that are not due yet, and accept none from now on."""
        self.is_open = False
        self.ready = asyncio.Queue()  # timers that are still running put their workloads into the old queue
        self.queued, self.busy, self.held = {}, set(), set()

    def add(self, key: Key, after: float) -> None:
        """Queue a workload, due after `after` seconds, unless it is queued already."""
        if self.is_open and key not in self.queued:
            turn = self.queued[key] = object()
            asyncio.get_running_loop().call_later(after, self.ready.put_nowait, (key, turn))

    def discard(self, key: Key) -> None:
        """Take a workload out of the queue, so that another one of that name can be queued."""
        self.queued.pop(key, None)
        self.held.discard(key)

    async def get(self) -> Key:
        """Wait for the next workload that is due, and take it out; it can be queued again. `done` must follow."""
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
        """Report that the work on a workload has ended.

        `pause`: the workload is due again after so many seconds, and not before, even if it was queued meanwhile.
        """
        self.busy.discard(key)
        if pause is not None:
            self.discard(key)
            self.add(key, pause)
        elif key in self.held:
            self.held.discard(key)
            self.ready.put_nowait((key, self.queued[key]))
