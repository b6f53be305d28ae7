"""Pauses between tries that fail."""


class Backoff:
    """Pauses that double, from the shortest to the longest; in seconds. `pause` is the next one."""

    __slots__ = ("longest", "pause", "shortest")

    def __init__(self, shortest: float, longest: float) -> None:
        self.shortest = shortest
        self.longest = longest
        self.pause = shortest

    def take(self) -> float:
        """Return the next pause; the one after it is twice as long."""
        pause = self.pause
        self.pause = min(2 * pause, self.longest)
        return pause

    def shorten(self, longest: float) -> None:
        """Let the next pause be no longer than this."""
        self.pause = min(self.pause, longest)

    def reset(self) -> None:
        """Begin with the shortest pause again, after a success."""
        self.pause = self.shortest
