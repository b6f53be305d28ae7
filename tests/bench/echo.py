"""The upper bound of the throughput: an aiohttp server that reads a request and returns prepared bytes.

`python -m tests.bench.echo ANSWERS -address=HOST:PORT -certificate=FILE -key=FILE`: the answer to /NAME is the file
NAME in the folder ANSWERS.
"""

import argparse
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import uvloop
from aiohttp import web


def handler(body: bytes) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(http: web.Request) -> web.Response:
        await http.read()
        return web.Response(body=body, content_type="application/json")

    return answer


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("answers", type=Path)
    for option in ("-address", "-certificate", "-key"):
        parser.add_argument(option)
    options = parser.parse_args()
    app = web.Application(client_max_size=8_000_000)
    for file in options.answers.iterdir():
        app.router.add_post(f"/{file.name}", handler(file.read_bytes()))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(options.certificate, options.key)
    host, _, port = options.address.rpartition(":")
    loop = uvloop.new_event_loop()
    web.run_app(app, host=host, port=int(port), ssl_context=context, access_log=None, print=None, loop=loop)


if __name__ == "__main__":
    main()
