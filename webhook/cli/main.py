"""The command line: retry-policy serve | render | check | explain | retry | suspend | resume."""

import functools
import io
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from webhook import __version__

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable

    from webhook.cli.documents import Document, Unusable
    from webhook.cli.offline import Verdict
    from webhook.cli.retrying import Outcome
    from webhook.objects.problem import Json, Problem
    from webhook.objects.problem import Path as FieldPath
    from webhook.policy.model import Policy, Profile

PROBLEMS: Final = 1
UNUSABLE: Final = 2
HIGHEST_ATTEMPT: Final = 2147483647  # what an annotation may say
PORT: Final = click.IntRange(0, 65535)
DEFAULT_KUBECONFIG: Final = "~/.kube/config"
LARGEST_POLICY: Final = 1024 * 1024  # bytes, of a ConfigMap
LONGEST_LINE: Final = 4096  # characters of a message
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
@click.option("--port", type=PORT, default=8443, show_default=True, help="HTTPS: /mutate, /validate; 0 picks one.")
@click.option(
    "--health-port", type=PORT, default=8080, show_default=True, help="HTTP: /healthz, /readyz, /metrics; 0 picks one."
)
@click.option("--kubeconfig", help="Default: inside a cluster its service account, outside none.")
@click.option("--requested-retries", is_flag=True, help="Have run again what an annotation asks for; serves /retry.")
def serve(policy_configmap: str | None, **options: Any) -> None:
    """Answer admission requests until SIGTERM."""
    import uvloop  # noqa: PLC0415 - the other commands start faster without the server's imports

    from certs.rotate import Lifetimes  # noqa: PLC0415 - likewise
    from webhook.serving import app, logs  # noqa: PLC0415 - likewise

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
        uvloop.run(app.serve(app.Options(**options), Lifetimes()))
    except app.CannotStartError as error:
        raise click.ClickException(str(error)) from None


def on_files(command: Callable[..., None]) -> Callable[..., None]:
    """Give `render` and `check` what they have in common: options, and how they write and end."""

    @functools.wraps(command)
    def filtering(**options: Any) -> None:
        # `| head` and Ctrl-C end a filter at once and without a word, with the exit code that shells know them by.
        for number in (signal.SIGINT, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        if isinstance(sys.stdout, io.TextIOWrapper):  # None where it is closed
            sys.stdout.reconfigure(encoding="utf-8")  # whatever the locale: kubectl reads nothing else
        try:
            command(**options)
        except OSError as error:
            click.echo(f"the output cannot be written: {error.strerror}; write it elsewhere", err=True)
            sys.exit(UNUSABLE)

    for option in (
        click.option("--profile", "profile_name", metavar="NAME", help="Profile to apply.  [default: default]"),
        click.option(
            "--policy",
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="Policy, or the ConfigMap with it. Default: the packaged policy.",
        ),
        click.option("-f", "files", multiple=True, metavar="FILE|FOLDER|-", help="Manifests; may be repeated."),
    ):
        filtering = option(filtering)
    return filtering


@main.command(options_metavar="-f FILE|FOLDER|- [OPTIONS]")
@on_files
@click.option(
    "--attempt",
    type=click.IntRange(min=0, max=HIGHEST_ATTEMPT),
    metavar="N",
    help="Render Pod documents as this attempt; 0 is the first.",
)
@click.option("-o", "output", type=click.Choice(["yaml", "json", "diff"]), default="yaml", show_default=True)
def render(
    files: tuple[str, ...], policy: Path | None, profile_name: str | None, attempt: int | None, output: str
) -> None:
    """Print what admission would make of each document.

    Kinds that the policy does not know stay as they are. Problems and warnings go to stderr. Exit 0 if there are no
    problems, 1 if there are, 2 if some input cannot be read.
    """
    from webhook.cli import offline  # noqa: PLC0415 - each command imports what it needs
    from webhook.objects.problem import field  # noqa: PLC0415 - likewise

    run = Run(files, policy, profile_name)
    write = functools.partial(click.echo, nl=False)
    pods = False
    for index, document in enumerate(run.documents()):
        for path, root in document.objects():
            verdict = run.judge(document, path, root, attempt, compare=output == "diff")
            pods |= verdict.placed
            for problem in verdict.problems:
                click.echo(printable(f"{document.file}:{document.number} {problem}"), err=True)
            if verdict.before:
                name = printable(f"{document.file}:{document.number} {field(path)}".rstrip())
                lines = offline.as_diff(name, verdict.before, offline.as_yaml(root))
                write("".join(click.style(f"{line}\n", fg=DIFF_COLOURS.get(line[:1])) for line in lines))
        if output == "json":
            offline.write_json(document.value, write)
        elif output == "yaml":
            write("---\n" * bool(index))
            offline.write_yaml(document.value, write)
    if pods and run.profile.placement.provider == "auto":
        where = f"profiles.{run.profile_name}.placement.provider"
        click.echo(f"warning: {where}: is auto, and there are no nodes to look at; name one to see placement", err=True)
    if attempt is not None and not pods:
        click.echo("warning: --attempt: there is no Pod that is placed by it; name a file with one", err=True)
    sys.exit(run.exit_code)


@main.command(options_metavar="-f FILE|FOLDER|- [OPTIONS]", short_help="Print every problem that admission would deny.")
@on_files
def check(files: tuple[str, ...], policy: Path | None, profile_name: str | None) -> None:
    """Print every problem that admission would deny, as FILE:DOC path: what; what would be right.

    Exit 0 if there is none, 1 if there are, 2 if some input cannot be read. Warnings go to stderr. With --policy and no
    -f, checks the policy itself.
    """
    if policy is not None and not files:
        checked = policy_or_problems(policy)
        if isinstance(checked, list):
            for problem in checked:
                click.echo(printable(f"{policy}: {problem}"))
            sys.exit(PROBLEMS)
        if profile_name is not None:
            profile_of(checked, profile_name)
        return
    run = Run(files, policy, profile_name)
    for document in run.documents():
        for path, root in document.objects():
            for problem in run.judge(document, path, root, None).problems:
                click.echo(printable(f"{document.file}:{document.number} {problem}"))
    sys.exit(run.exit_code)


@main.command(options_metavar="[OPTIONS]")
@click.argument("workload", metavar="NAMESPACE/NAME", required=False)
@click.option("-f", "files", multiple=True, metavar="FILE|FOLDER|-", help="Objects as kubectl get -o yaml prints them.")
@click.option("-o", "output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.option("--kubeconfig", help="Default: KUBECONFIG, else ~/.kube/config.")
def explain(workload: str | None, files: tuple[str, ...], output: str, kubeconfig: str | None) -> None:
    """Tell what every attempt of a Job, JobSet or PipelineRun cost, why, and what is left.

    Reads the cluster, or with -f files with the workload, its Jobs or TaskRuns, and its pods. Exit 0, or 2 if there is
    no such workload or it cannot be read.
    """
    from webhook.cli import explaining  # noqa: PLC0415 - likewise

    if not files and workload is None:
        raise click.UsageError("name a workload, as NAMESPACE/NAME, or a file with -f")
    namespace, _, name = (workload or "").rpartition("/")
    if workload is not None and not (namespace and name):
        raise click.UsageError(f"{workload!r} names no namespace; write NAMESPACE/NAME")
    try:
        if files:
            stdin = io.BytesIO() if sys.stdin is None else sys.stdin.buffer
            explanations = explaining.of_files(files, stdin, (namespace, name) if workload else None)
        else:
            explanations = [explaining.of_cluster(kubeconfig_or_default(kubeconfig), namespace, name)]
    except explaining.UnexplainableError as error:
        click.echo(printable(str(error)), err=True)
        sys.exit(UNUSABLE)
    for number, explanation in enumerate(explanations):
        if output == "json":
            click.echo(explaining.as_json(explanation))
        else:
            click.echo(
                ("\n" if number else "") + "\n".join(printable(line) for line in explaining.as_table(explanation))
            )


@main.command(options_metavar="[OPTIONS]", short_help="Have what has failed run again.")
@click.argument("target", metavar="NAMESPACE/KIND[/NAME]")
@click.option("-l", "selector", metavar="SELECTOR", help="All that have failed of those with these labels.")
@click.option("--failed-since", metavar="DURATION", help="All that have failed within 90s, 1h30m, 24h until now.")
@click.option(
    "--dry-run", is_flag=True, help="Only say what would run again; the API server is asked whether it could."
)
@click.option("--keep-finally", is_flag=True, help="PipelineRun: what of its finally tasks has succeeded stays.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--kubeconfig", help="Default: KUBECONFIG, else ~/.kube/config.")
def retry(target: str, selector: str | None, failed_since: str | None, kubeconfig: str | None, **flags: bool) -> None:
    """Have what has failed run again, what has succeeded not: Job, CronJob (its last Job), JobSet, PipelineRun.

    Only what says that it may run twice: annotation retry-policy.dev/retryable is "true". Exit 0 if all runs again, 1
    if something was refused, 2 if the cluster cannot be asked.
    """
    from webhook.cli import retrying  # noqa: PLC0415 - likewise

    try:
        wanted = retrying.target_of(target, selector, failed_since, keep_finally=flags["keep_finally"])
    except ValueError as error:
        raise click.UsageError(str(error)) from None

    def agreed(lines: list[str]) -> bool:
        if flags["yes"]:
            return True
        for line in lines:
            click.echo(printable(line))
        return click.confirm("Go on?")

    file = kubeconfig_or_default(kubeconfig)
    conclude(file, retrying.retry(file, wanted, agreed, dry_run=flags["dry_run"]), " (dry run)" * flags["dry_run"])


@main.command(options_metavar="[OPTIONS]")
@click.argument("target", metavar="NAMESPACE/KIND/NAME")
@click.option("--kubeconfig", help="Default: KUBECONFIG, else ~/.kube/config.")
def suspend(target: str, kubeconfig: str | None) -> None:
    """Let a Job, CronJob or JobSet give way: its pods end, and it goes on when it is resumed."""
    switch(target, kubeconfig, suspend=True)


@main.command(options_metavar="[OPTIONS]")
@click.argument("target", metavar="NAMESPACE/KIND/NAME")
@click.option("--kubeconfig", help="Default: KUBECONFIG, else ~/.kube/config.")
def resume(target: str, kubeconfig: str | None) -> None:
    """Let a Job, CronJob or JobSet go on that is suspended."""
    switch(target, kubeconfig, suspend=False)


def switch(target: str, kubeconfig: str | None, *, suspend: bool) -> None:
    """Suspend or resume."""
    from webhook.cli import retrying, suspending  # noqa: PLC0415 - likewise

    try:
        named = retrying.target_of(target, None, None)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    file = kubeconfig_or_default(kubeconfig)
    conclude(file, suspending.switch(file, named, suspend=suspend))


def conclude(file: str, work: "Coroutine[None, None, Outcome]", added: str = "") -> None:
    """Do what is to be done in the cluster of a kubeconfig, say what became of it, and exit."""
    import asyncio  # noqa: PLC0415 - likewise

    from webhook.kube.client import UNREACHABLE, ApiError  # noqa: PLC0415 - likewise

    try:
        outcome = asyncio.run(work)
    except ApiError as error:
        click.echo(printable(str(error)), err=True)
        sys.exit(UNUSABLE)
    except UNREACHABLE as error:
        what = f"the cluster of {file} cannot be asked: {error}; name another with --kubeconfig"
        click.echo(printable(what), err=True)
        sys.exit(UNUSABLE)
    for line in outcome.done:
        click.echo(printable(line + added))
    for line in [*(f"warning: {one}" for one in outcome.warnings), *outcome.refused]:
        click.echo(printable(line), err=True)
    if not outcome.done and not outcome.refused:
        click.echo("nothing was done", err=True)
    sys.exit(PROBLEMS if outcome.refused else 0)


def kubeconfig_or_default(kubeconfig: str | None) -> str:
    """Return the kubeconfig that kubectl would take."""
    return kubeconfig or os.environ.get("KUBECONFIG") or str(Path(DEFAULT_KUBECONFIG).expanduser())


class Run:
    """One run of `render` or `check`: its profile, its documents, and what its exit code will be."""

    def __init__(self, files: tuple[str, ...], policy: Path | None, profile_name: str | None) -> None:
        if not files:
            raise click.UsageError("-f is missing: name a file, a folder, or - for stdin")
        self.files = files
        self.policy = usable_policy(policy)
        self.profile_name = profile_name or "default"
        self.profile = profile_of(self.policy, self.profile_name)
        self.exit_code = 0

    def documents(self) -> Iterator["Document"]:
        """Yield the documents; what is odd in one and what cannot be read goes to stderr."""
        from webhook.cli import documents, offline  # noqa: PLC0415 - likewise

        stdin = io.BytesIO() if sys.stdin is None else sys.stdin.buffer  # None where it is closed
        for file in self.files:
            try:
                for found in documents.read(file, stdin):
                    if isinstance(found, documents.Document):
                        self.warn(found, offline.warnings(found))
                        yield found
                    else:
                        self.refuse(found)
            except OSError as error:
                self.refuse(documents.unreadable(file, error))

    def refuse(self, unusable: "Unusable") -> None:
        """Say what cannot be read."""
        click.echo(printable(str(unusable)), err=True)
        self.exit_code = UNUSABLE

    def warn(self, document: "Document", warnings: "Iterable[Problem]") -> None:
        """Print warnings about a document."""
        for warning in warnings:
            click.echo(printable(f"{document.file}:{document.number} warning: {warning}"), err=True)

    def judge(
        self, document: "Document", path: "FieldPath", root: "Json", attempt: int | None, *, compare: bool = False
    ) -> "Verdict":
        """Admit an object at `path` in a document; its warnings go to stderr."""
        from webhook.cli import offline  # noqa: PLC0415 - likewise

        verdict = offline.admit(root, self.policy, self.profile_name, attempt, compare=compare)
        verdict.problems = offline.prefixed(path, verdict.problems)
        self.warn(document, offline.prefixed(path, verdict.warnings))
        if verdict.problems:
            self.exit_code = self.exit_code or PROBLEMS
        return verdict


def printable(line: str) -> str:
    """Escape what would break the line or steer a terminal, and cut the middle of a long one: keys may be anything."""
    if len(line) > LONGEST_LINE:
        line = f"{line[: LONGEST_LINE // 2]} … {line[-LONGEST_LINE // 2 :]}"
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in line)


def profile_of(policy: "Policy", name: str) -> "Profile":
    """Return a profile of the policy; a wrong name is a usage error."""
    profile = policy.profiles.get(name)
    if profile is None:
        raise click.UsageError(f"the policy has no profile {name!r}; it has: {', '.join(sorted(policy.profiles))}")
    return profile


def usable_policy(file: Path | None) -> "Policy":
    """Return the policy in a file, the packaged one without; exit 2 with all its problems if it has any."""
    from webhook.policy.parse import load_default  # noqa: PLC0415 - likewise

    if file is None:
        return load_default()
    policy = policy_or_problems(file)
    if isinstance(policy, list):
        for problem in policy:
            click.echo(printable(f"{file}: {problem}"), err=True)
        sys.exit(UNUSABLE)
    return policy


def policy_or_problems(file: Path) -> "Policy | list[Problem]":
    """Read and check a policy file; exit 2 if it cannot be read."""
    from webhook.admission.engine import validate_policy  # noqa: PLC0415 - likewise
    from webhook.policy.parse import parse  # noqa: PLC0415 - likewise

    try:
        text = policy_text(file)
    except ValueError as error:
        click.echo(printable(f"{file}: {error}; name a policy file"), err=True)
        sys.exit(UNUSABLE)
    policy = parse(text)
    return policy if isinstance(policy, list) else validate_policy(policy) or policy


def policy_text(file: Path) -> str:
    """Return what a policy file holds; raise ValueError with what is wrong with it."""
    try:
        with file.open("rb") as opened:
            data = opened.read(LARGEST_POLICY + 1)
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from None
    if len(data) > LARGEST_POLICY:
        raise ValueError("is larger than 1 MiB, which no ConfigMap holds")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ValueError("is not utf-8") from None
