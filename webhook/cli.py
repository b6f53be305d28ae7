"""The command line: retry-policy serve | render | check."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click

from webhook import __version__

if TYPE_CHECKING:
    from webhook.documents import Document
    from webhook.offline import Verdict
    from webhook.policy.model import Policy
    from webhook.problem import Problem

PROBLEMS: Final = 1
UNUSABLE: Final = 2
DIFF_COLOURS: Final = {"+": "green", "-": "red", "@": "cyan"}


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="retry-policy")
def main() -> None:
    """One retry policy for every batch workload in a Kubernetes cluster."""


@main.command()
@click.option("--policy", type=click.Path(path_type=Path), help="Policy file, read again when it changes.")
@click.option("--policy-configmap", metavar="NS/NAME", help="ConfigMap with the policy in key policy.yaml, watched.")
@click.option("--tls-cert", type=click.Path(path_type=Path), help="Certificate chain, PEM. Without: self-made.")
@click.option("--tls-key", type=click.Path(path_type=Path), help="Its private key, PEM.")
@click.option("--client-ca", type=click.Path(path_type=Path), help="Serve only clients with a certificate of this CA.")
@click.option("--host", help="Address to listen on. Default: 127.0.0.1, inside a cluster all.")
@click.option("--port", default=8443, show_default=True, help="HTTPS port of /mutate and /validate; 0 picks one.")
@click.option(
    "--health-port", default=8080, show_default=True, help="HTTP port of /healthz, /readyz, /metrics; 0 picks one."
)
@click.option("--kubeconfig", help="Default: inside a cluster its service account, outside none.")
def serve(policy_configmap: str | None, **options: Any) -> None:
    """Answer admission requests until SIGTERM."""
    import uvloop  # noqa: PLC0415 - the other commands start faster without the server's imports

    from webhook.server import app, logs  # noqa: PLC0415 - likewise

    if policy_configmap is not None:
        if options["policy"] is not None:
            raise click.UsageError("--policy and --policy-configmap exclude each other")
        namespace, _, name = policy_configmap.partition("/")
        if not namespace or not name:
            raise click.UsageError("--policy-configmap takes NAMESPACE/NAME")
        options["policy_configmap"] = (namespace, name)
    if (options["tls_cert"] is None) != (options["tls_key"] is None):
        raise click.UsageError("--tls-cert and --tls-key go together")
    logs.to_stderr()
    try:
        uvloop.run(app.serve(app.Options(**options)))
    except app.CannotStartError as error:
        raise click.ClickException(str(error)) from None


def files_option(command: Callable[..., None]) -> Callable[..., None]:
    """Add what `render` and `check` have in common."""
    for option in (
        click.option("--profile", "profile_name", default="default", show_default=True, help="Profile to apply."),
        click.option("--policy", type=click.Path(path_type=Path), help="Policy file. Default: the packaged policy."),
        click.option("-f", "files", multiple=True, metavar="FILE|FOLDER|-", help="Manifests; may be repeated."),
    ):
        command = option(command)
    return command


@main.command()
@files_option
@click.option("--attempt", type=click.IntRange(min=0), help="Attempt that Pod documents are: 0 is the first.")
@click.option("-o", "output", type=click.Choice(["yaml", "json", "diff"]), default="yaml", show_default=True)
def render(files: tuple[str, ...], policy: Path | None, profile_name: str, attempt: int | None, output: str) -> None:
    """Print what admission would make of each document.

    Kinds that the policy does not know stay as they are. Problems go to stderr; exit 1 if there are any.
    """
    from webhook import offline  # noqa: PLC0415 - each command imports what it needs

    run = Run(files, policy, profile_name)
    for index, document in enumerate(run.documents()):
        before = offline.as_yaml(document.value) if output == "diff" else ""
        verdict = run.judge(document, attempt)
        for problem in verdict.problems:
            click.echo(f"{document.file}:{document.number} {problem}", err=True)
        if output == "diff":
            name = f"{document.file}:{document.number}"
            for line in offline.as_diff(name, before, offline.as_yaml(document.value)):
                click.secho(line, fg=DIFF_COLOURS.get(line[:1]))
        elif output == "json":
            click.echo(offline.as_json(document.value), nl=False)
        else:
            click.echo(("---\n" if index else "") + offline.as_yaml(document.value), nl=False)
    run.finish()


@main.command()
@files_option
def check(files: tuple[str, ...], policy: Path | None, profile_name: str) -> None:
    """Print every problem that admission would deny, as FILE:DOC path: what; what would be right.

    Exit 0 if there is none, 1 if there are, 2 if some input cannot be read. Warnings go to stderr. With --policy and no
    -f, checks the policy itself.
    """
    if policy is not None and not files:
        problems = policy_or_problems(policy)
        if isinstance(problems, list):
            for problem in problems:
                click.echo(f"{policy}: {problem}")
            sys.exit(PROBLEMS)
        return
    run = Run(files, policy, profile_name)
    for document in run.documents():
        for problem in run.judge(document, None).problems:
            click.echo(f"{document.file}:{document.number} {problem}")
    run.finish()


class Run:
    """One run of `render` or `check`: its policy, its documents, and what its exit code will be."""

    def __init__(self, files: tuple[str, ...], policy: Path | None, profile_name: str) -> None:
        if not files:
            raise click.UsageError("-f is missing: name a file, a folder, or - for stdin")
        self.files = files
        self.policy = usable_policy(policy)
        self.profile_name = profile_name
        if profile_name not in self.policy.profiles:
            known = ", ".join(sorted(self.policy.profiles))
            raise click.UsageError(f"the policy has no profile {profile_name!r}; it has: {known}")
        self.exit_code = 0
        self.not_placed = False

    def documents(self) -> Iterator["Document"]:
        """Yield the documents; what cannot be read goes to stderr."""
        from webhook import documents  # noqa: PLC0415 - likewise

        for file in self.files:
            for found in documents.read(file, sys.stdin.buffer):
                if isinstance(found, documents.Unusable):
                    click.echo(str(found), err=True)
                    self.exit_code = UNUSABLE
                else:
                    yield found

    def judge(self, document: "Document", attempt: int | None) -> "Verdict":
        """Admit a document; its warnings go to stderr."""
        from webhook import offline  # noqa: PLC0415 - likewise

        verdict = offline.admit(document, self.policy, self.profile_name, attempt)
        for warning in verdict.warnings:
            click.echo(f"{document.file}:{document.number} warning: {warning}", err=True)
        if verdict.problems:
            self.exit_code = self.exit_code or PROBLEMS
        self.not_placed |= verdict.not_placed
        return verdict

    def finish(self) -> NoReturn:
        """Say once what could not be told, and exit."""
        if self.not_placed:
            path = f"profiles.{self.profile_name}.placement.provider"
            click.echo(
                f"warning: {path}: is auto, and there are no nodes to look at; name one to see placement", err=True
            )
        sys.exit(self.exit_code)


def usable_policy(file: Path | None) -> "Policy":
    """Return the policy in a file, the packaged one without; exit 2 with all its problems if it has any."""
    from webhook.policy.parse import load_default  # noqa: PLC0415 - likewise

    if file is None:
        return load_default()
    policy = policy_or_problems(file)
    if isinstance(policy, list):
        for problem in policy:
            click.echo(f"{file}: {problem}", err=True)
        sys.exit(UNUSABLE)
    return policy


def policy_or_problems(file: Path) -> "Policy | list[Problem]":
    """Read and check a policy file; exit 2 if it cannot be read."""
    from webhook.decide import validate_policy  # noqa: PLC0415 - likewise
    from webhook.policy.parse import parse  # noqa: PLC0415 - likewise

    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        click.echo(f"{file}: cannot be read: {error}; name a policy file", err=True)
        sys.exit(UNUSABLE)
    policy = parse(text)
    return policy if isinstance(policy, list) else validate_policy(policy) or policy
