"""Shared by `render` and `check`: read manifests one by one, and admit each object as the webhook does."""

import functools
import io
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import click

from webhook.cli import documents, offline
from webhook.cli.console import PROBLEMS, UNUSABLE, printable
from webhook.cli.documents import Document, Unusable
from webhook.cli.offline import Verdict
from webhook.cli.policy_file import profile_of, usable_policy
from webhook.objects.problem import Json, Problem
from webhook.objects.problem import Path as FieldPath


def on_files(command: Callable[..., None]) -> Callable[..., None]:
    """Decorate `render` and `check` with their common options, handling of signals, and errors of the output."""

    @functools.wraps(command)
    def filtering(**options: Any) -> None:
        # `| head` and Ctrl-C end the command at once and without a message, with the exit code that shells expect.
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


class Run:
    """One run of `render` or `check`: its policy and profile, its documents, and its exit code so far."""

    def __init__(self, files: tuple[str, ...], policy: Path | None, profile_name: str | None) -> None:
        if not files:
            raise click.UsageError("-f is missing; name a file, a folder, or - for stdin")
        self.files = files
        self.policy = usable_policy(policy)
        self.profile_name = profile_name or "default"
        self.profile = profile_of(self.policy, self.profile_name)
        self.exit_code = 0

    def documents(self) -> Iterator[Document]:
        """Yield the documents; write warnings about them, and what cannot be read, to stderr."""
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

    def refuse(self, unusable: Unusable) -> None:
        """Print to stderr what cannot be read, and set the exit code."""
        click.echo(printable(str(unusable)), err=True)
        self.exit_code = UNUSABLE

    def warn(self, document: Document, warnings: Iterable[Problem]) -> None:
        """Print warnings about a document to stderr."""
        for warning in warnings:
            click.echo(printable(f"{document.file}:{document.number} warning: {warning}"), err=True)

    def judge(
        self, document: Document, path: FieldPath, root: Json, attempt: int | None, *, compare: bool = False
    ) -> Verdict:
        """Return the verdict on the object at `path` in a document, and edit the object; print warnings to stderr."""
        verdict = offline.admit(root, self.policy, self.profile_name, attempt, compare=compare)
        verdict.problems = offline.prefixed(path, verdict.problems)
        self.warn(document, offline.prefixed(path, verdict.warnings))
        if verdict.problems:
            self.exit_code = self.exit_code or PROBLEMS
        return verdict
