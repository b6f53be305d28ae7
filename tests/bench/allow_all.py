"""A webhook that does nothing: it allows every request. `python -m tests.bench.allow_all PORT CERTIFICATE KEY`."""

import ssl
import sys

import msgspec
import uvloop
from aiohttp import web


class Request(msgspec.Struct):
    uid: str


class Review(msgspec.Struct):
    request: Request


decoder = msgspec.json.Decoder(Review)
ANSWER = b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"%s","allowed":true}}'


async def answer(http: web.Request) -> web.Response:
    uid = decoder.decode(await http.read()).request.uid
    return web.Response(body=ANSWER % uid.encode(), content_type="application/json")


async def application() -> web.Application:
    app = web.Application(client_max_size=8_000_000)
    app.router.add_post("/mutate", answer)
    app.router.add_post("/validate", answer)
    return app


def main(port: str, certificate: str, key: str) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    web.run_app(
        application(),
        host="127.0.0.1",
        port=int(port),
        ssl_context=context,
        access_log=None,
        print=None,
        keepalive_timeout=120,
        loop=uvloop.new_event_loop(),
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
