"""retry-policy serve."""

from typing import Any

import click

from webhook.cli import program
from webhook.cli.console import FILE
from webhook.cli.terminal import command


@command(
    (
        "On this machine, with the packaged policy and a self-made certificate; it prints its addresses",
        "retry-policy serve --port 0 --health-port 0",
    ),
    ("As the Deployment does", "retry-policy serve --policy-configmap retry-policy-system/retry-policy"),
)
@program.options_of_a_program
@click.option("--tls-cert", type=FILE, help="Certificate chain, PEM. Without: the controller's.")
@click.option("--tls-key", type=FILE, help="Its private key, PEM.")
@click.option("--client-ca", type=FILE, help="Serve only clients with a certificate of this CA.")
@click.option(
    "--port", type=program.PORT, default=8443, show_default=True, help="HTTPS: /mutate, /validate; 0 picks one."
)
@click.option("--requested-retries", is_flag=True, help="Judge at /retry who may request retries.")
def serve(**options: Any) -> None:
    """Answer admission requests until SIGTERM."""
    program.see_config_map(options)
    if (options["tls_cert"] is None) != (options["tls_key"] is None):
        raise click.UsageError("--tls-cert and --tls-key go together; add the other one")

    async def run() -> None:
        from webhook.serving import app  # noqa: PLC0415 - `pip install retry-policy-webhook` alone lacks its packages

        await app.serve(app.ServeOptions(**options))

    program.run(run)
