"""How much the server takes on, chosen so that it stays well below the 512 MiB that its pod may use."""

import resource
from dataclasses import dataclass
from typing import Final

MEBIBYTE: Final = 1024 * 1024
# Two objects of 3 MiB, the most that the API server stores, and what stands around them.
LARGEST_BODY: Final = 7 * MEBIBYTE
LONGEST_HEADER: Final = 4096  # bytes; also of the request line. An API server's whole head has a few hundred
HEADERS: Final = 32
OPEN_FILES: Final = 8192  # two listeners with all their connections and handshakes, and what else is open


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of one listener and of what is behind it; times in seconds.

    `requests` are those that wait for the API, and `waiting_bytes` their bodies, whose objects are in memory: an object
    takes up to 24 times its bytes, and beside those that wait there is the one that is being answered. One namespace
    gets at most half of both. `held_bytes` are all bodies from when they arrive until the answer, `answer_bytes`
    large answers that their clients have not taken: TLS keeps up to three times as much.

    `connections` are open ones, `handshakes` those before; each takes 25 to 65 KiB, and up to 400 KiB where large
    bodies come and go: its TLS layer owns 256 KiB, which are then no longer fresh. `spare` of those that never asked
    may stay: an API server opens some that it does not need at once. `patience` ends what a client leaves unfinished: a
    handshake, a head, a body, taking an answer. `silent` connections have not even begun the handshake: little each.
    """

    requests: int = 128
    held_bytes: int = 32 * MEBIBYTE
    answer_bytes: int = 8 * MEBIBYTE
    waiting_bytes: int = 8 * MEBIBYTE
    connections: int = 768
    handshakes: int = 128
    silent: int = 1024
    spare: int = 200
    patience: float = 10.0


LIMITS: Final = Limits()


def raise_open_files() -> None:
    """Let the process open as many files as it may need, as far as its hard limit allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
