"""retry-policy serve. The server's packages are those of the extra `server`: without them, the command says so."""

from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import click

from webhook.cli.terminal.examples import WithExamples
from webhook.kube.paths import is_name

PORT: Final = click.IntRange(0, 65535)


@click.command(
    cls=WithExamples,
    examples=(
        (
            "On this machine, with the packaged policy and a self-made certificate; it prints its addresses",
            "retry-policy serve --port 0 --health-port 0",
        ),
        ("As the Deployment does", "retry-policy serve --policy-configmap retry-policy-system/retry-policy"),
    ),
)
@click.option("--policy", type=click.Path(path_type=Path), help="Policy file, read again when it changes.")
@click.option("--policy-configmap", metavar="NS/NAME", help="ConfigMap with the policy in key policy.yaml, watched.")
@click.option("--tls-cert", type=click.Path(path_type=Path), help="Certificate chain, PEM. Without: self-made.")
@click.option("--tls-key", type=click.Path(path_type=Path), help="Its private key, PEM.")
@click.option("--client-ca", type=click.Path(path_type=Path), help="Serve only clients with a certificate of this CA.")
@click.option("--host", help="Address to listen on. Default: 127.0.0.1, inside a cluster all.")
@click.option("--port", type=PORT, default=8443, show_default=True, help="HTTPS: /mutate, /validate; 0 picks one.")
@click.option(
    "--health-port", type=PORT, default=8080, show_default=True, help="HTTP: /healthz, /readyz, /metrics; 0 picks one."
)
@click.option("--kubeconfig", help="Default: inside a cluster its service account, outside none.")
@click.option("--requested-retries", is_flag=True, help="Rerun what an annotation requests; serves /retry.")
@click.option(
    "--history", type=click.Path(path_type=Path), help="Folder for records of ended attempts. Default: the log."
)
@click.option("--history-url", help="Collector that gets these records by POST, as NDJSON.")
@click.option("--history-token-file", type=click.Path(path_type=Path), help="File with a bearer token for it.")
def serve(policy_configmap: str | None, **options: Any) -> None:
    """Answer admission requests until SIGTERM."""
    if policy_configmap is not None:
        if options["policy"] is not None:
            raise click.UsageError("--policy and --policy-configmap exclude each other; leave one out")
        namespace, _, name = policy_configmap.partition("/")
        if not is_name(namespace) or not is_name(name):
            raise click.UsageError("--policy-configmap does not name a ConfigMap; write NAMESPACE/NAME")
        options["policy_configmap"] = (namespace, name)
    if (options["tls_cert"] is None) != (options["tls_key"] is None):
        raise click.UsageError("--tls-cert and --tls-key go together; add the other one")
    check_history(options)
    run(options)


def check_history(options: dict[str, Any]) -> None:
    """Raise click.UsageError if the options about history contradict each other."""
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


def run(options: dict[str, Any]) -> None:
    """Run the server; raise click.ClickException if it cannot start."""
    try:
        import uvloop  # noqa: PLC0415 - `pip install retry-policy-webhook` alone has none of these

        from certs.rotate import Lifetimes  # noqa: PLC0415 - likewise
        from webhook.serving import app, logs  # noqa: PLC0415 - likewise
    except ModuleNotFoundError as error:
        remedy = "install the server: pip install 'retry-policy-webhook[server]'"
        raise click.ClickException(f"{error.name} is not installed; {remedy}") from None
    logs.to_stderr()
    try:
        uvloop.run(app.serve(app.Options(**options), Lifetimes()))
    except app.CannotStartError as error:
        raise click.ClickException(str(error)) from None
