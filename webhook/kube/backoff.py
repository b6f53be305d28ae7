"""Back-off: the pauses between attempts that fail."""


class Backoff:
    """Pauses that double, from the shortest to the longest, in seconds; `pause` is the next pause."""

    __slots__ = ("longest", "pause", "shortest")

    def __init__(self, shortest: float, longest: float) -> None:
        self.shortest = shortest
        self.longest = longest
        self.pause = shortest

    def take(self) -> float:
        """Return the next pause, and double the one after it."""
        pause = self.pause
        self.pause = min(2 * pause, self.longest)
        return pause

    def shorten(self, longest: float) -> None:
        """Limit the next pause to `longest` seconds."""
        self.pause = min(self.pause, longest)

    def reset(self) -> None:
        """Start again with the shortest pause, after a success."""
        self.pause = self.shortest
