"""Sends records to an HTTP collector, in batches."""

import asyncio
from http import HTTPStatus
from pathlib import Path
from typing import Final

import aiohttp

from webhook.history.writer import FailedError, RefusedError

TIMEOUT: Final = aiohttp.ClientTimeout(total=10)
LARGEST_TOKEN: Final = 16384  # bytes
PRINTABLE: Final = range(0x21, 0x7F)  # bytes of a token
# The answers of the 4xx after which the same request may succeed later.
LATER: Final = frozenset(
    {
        *(HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND),
        *(HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS),
    }
)


class CollectorSink:
    """Posts lines as application/x-ndjson to a URL. `token_file`: a file with a bearer token, read for each batch.

    Certificates are verified by the system's authorities, or by those of SSL_CERT_FILE. Redirections are not followed:
    they would get the token.
    """

    most: Final = 1000

    def __init__(self, url: str, token_file: Path | None = None) -> None:
        self.url = url
        self.token_file = token_file
        self.session: aiohttp.ClientSession | None = None

    async def write(self, lines: list[bytes]) -> None:
        """Post lines; raise as `Sink.write` does."""
        if self.session is None:
            self.session = aiohttp.ClientSession(timeout=TIMEOUT)
        headers = {"Content-Type": "application/x-ndjson", **await asyncio.to_thread(self.authorization)}
        body = b"".join(line + b"\n" for line in lines)
        try:
            async with self.session.post(self.url, data=body, headers=headers, allow_redirects=False) as response:
                status = response.status
        except aiohttp.ClientError as error:
            raise FailedError(f"{type(error).__name__}: {error}") from error
        if status // 100 == 2:  # noqa: PLR2004 - the statuses of success
            return
        if status // 100 == 4 and status not in LATER:  # noqa: PLR2004 - those of the client's faults
            raise RefusedError(f"the collector answered {status}")
        raise FailedError(f"the collector answered {status}")

    def authorization(self) -> dict[str, str]:
        """Return the header with the token; raise OSError if it cannot be read, and FailedError if it is none."""
        if self.token_file is None:
            return {}
        with self.token_file.open("rb") as opened:
            token = opened.read(LARGEST_TOKEN + 1).strip()
        if not token or len(token) > LARGEST_TOKEN or not all(byte in PRINTABLE for byte in token):
            raise FailedError(f"{self.token_file} has no bearer token")
        return {"Authorization": f"Bearer {token.decode()}"}

    async def close(self) -> None:
        """Close the connections."""
        if self.session is not None:
            await self.session.close()
