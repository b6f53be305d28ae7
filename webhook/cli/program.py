"""What `serve` and `control` have in common on the command line. Their packages are those of the extra `server`."""

from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

import click

from webhook.cli.console import FILE
from webhook.kube.paths import is_name

PORT: Final = click.IntRange(0, 65535)
OPTIONS: Final = (
    click.option("--policy", type=FILE, help="Policy file, read again when it changes."),
    click.option(
        "--policy-configmap", metavar="NS/NAME", help="ConfigMap with the policy in key policy.yaml, watched."
    ),
    click.option("--host", help="Address to listen on. Default: 127.0.0.1, inside a cluster all."),
    click.option(
        *("--health-port", "health_port"),
        type=PORT,
        default=8080,
        show_default=True,
        help="HTTP: /healthz, /readyz, /metrics; 0 picks one.",
    ),
    click.option("--kubeconfig", help="Default: inside a cluster its service account, outside none."),
)

Command = TypeVar("Command", bound=Callable[..., Any])


def options_of_a_program(command: Command) -> Command:
    """Add the options that both programs have to a command."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def see_config_map(options: dict[str, Any]) -> None:
    """Replace NAMESPACE/NAME by the two names; raise click.UsageError if it is malformed, or there is a file too."""
    config_map = options["policy_configmap"]
    if config_map is None:
        return
    if options["policy"] is not None:
        raise click.UsageError("--policy and --policy-configmap exclude each other; leave one out")
    namespace, _, name = config_map.partition("/")
    if not is_name(namespace) or not is_name(name):
        raise click.UsageError("--policy-configmap does not name a ConfigMap; write NAMESPACE/NAME")
    options["policy_configmap"] = (namespace, name)


def run(program: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a program to its end; raise click.ClickException if it cannot start."""
    try:
        import uvloop  # noqa: PLC0415 - `pip install retry-policy-webhook` alone has none of these

        from webhook.program import logs, start  # noqa: PLC0415 - likewise

        logs.to_stderr()
        try:
            uvloop.run(program())
        except start.CannotStartError as error:
            raise click.ClickException(str(error)) from None
    except ModuleNotFoundError as error:
        remedy = "install the server: pip install 'retry-policy-webhook[server]'"
        raise click.ClickException(f"{error.name} is not installed; {remedy}") from None
