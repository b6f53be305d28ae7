"""retry-policy control."""

from typing import Any
from urllib.parse import urlsplit

import click

from webhook.cli import program
from webhook.cli.console import FILE
from webhook.cli.terminal import command


@command(
    ("As the Deployment does", "retry-policy control --policy-configmap retry-policy-system/retry-policy"),
)
@program.options_of_a_program
@click.option("--requested-retries", is_flag=True, help="Rerun what an annotation requests.")
@click.option("--no-certificates", is_flag=True, help="Issue none: another program does, such as cert-manager.")
@click.option(
    "--certificate-host", "certificate_hosts", multiple=True, metavar="HOST", help="One more host of the certificate."
)
@click.option("--history", type=FILE, help="Folder for records of ended attempts. Default: the log.")
@click.option("--history-url", help="Collector that gets these records by POST, as NDJSON.")
@click.option("--history-token-file", type=FILE, help="File with a bearer token for it.")
def control(*, no_certificates: bool, **options: Any) -> None:
    """Count what attempts cost, end and rerun workloads, issue certificates, until SIGTERM."""
    program.see_config_map(options)
    _check_history(options)

    async def run() -> None:
        from certs.rotate import Lifetimes  # noqa: PLC0415 - `pip install retry-policy-webhook` alone lacks its packages
        from webhook.controller import app  # noqa: PLC0415 - likewise

        await app.control(app.ControlOptions(**options, certificates=not no_certificates), Lifetimes())

    program.run(run)


def _check_history(options: dict[str, Any]) -> None:
    url, token = options["history_url"], options["history_token_file"]
    if url is not None and options["history"] is not None:
        raise click.UsageError("--history and --history-url exclude each other; leave one out")
    if url is None:
        if token is not None:
            raise click.UsageError("--history-token-file needs --history-url; add it")
        return
    try:
        parts = urlsplit(url)
        known = parts.scheme in {"https", "http"} and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        known = False
    if not known:
        raise click.UsageError("--history-url is no URL of a collector; write such as https://vector.logs.svc:8080/")
    if parts.username is not None or parts.password is not None:
        raise click.UsageError("--history-url has a user or password, which logs would show; use --history-token-file")
    if token is not None and parts.scheme != "https":
        raise click.UsageError("--history-token-file would be sent in clear; let --history-url begin with https://")
