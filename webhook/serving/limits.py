"""The limits of the server, chosen so that its memory stays well below the 512 MiB of its pod."""

import resource
from dataclasses import dataclass
from typing import Final

MEBIBYTE: Final = 1024 * 1024
# Bytes: two objects of 3 MiB, the most that the API server stores, and the rest of the AdmissionReview.
LARGEST_BODY: Final = 7 * MEBIBYTE
LONGEST_HEADER: Final = 4096  # bytes of a header or of the request line; all of an API server's have a few hundred
HEADERS: Final = 32
OPEN_FILES: Final = 8192  # enough for two listeners with all their connections and handshakes, and for other files


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of one listener and of its requests; times in seconds.

    - `requests`: the requests that wait for the API. `waiting_bytes`: their bodies. Their objects are in memory, and an
      object takes up to 24 times the bytes of its text; the request that is being processed comes in addition. One
      namespace gets at most half of both.
    - `held_bytes`: all bodies, from their arrival until the answer.
    - `answer_bytes`: large answers that their clients have not read; TLS keeps up to three times as much.
    - `connections`: open connections after the handshake. `handshakes`: connections during it. Each takes 25 to 65 KiB,
      and up to 400 KiB after large bodies: its TLS layer has 256 KiB, whose pages stay in memory once they were used.
    - `spare`: the connections without a request that may stay open. An API server opens some before it needs them.
    - `client_timeout`: the time for a client to finish a handshake, a head or a body, and to read an answer.
    - `silent`: the connections that have not begun the handshake; each takes little memory.
    """

    requests: int = 128
    held_bytes: int = 32 * MEBIBYTE
    answer_bytes: int = 8 * MEBIBYTE
    waiting_bytes: int = 8 * MEBIBYTE
    connections: int = 768
    handshakes: int = 128
    silent: int = 1024
    spare: int = 200
    client_timeout: float = 10.0


LIMITS: Final = Limits()


def raise_open_files() -> None:
    """Raise the soft limit of open files to OPEN_FILES, or to the hard limit if that is less."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
