"""Shared by `render` and `check`: read manifests one by one, and admit each object as the webhook does."""

import functools
import io
import re
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import click

from webhook.cli import admission, documents
from webhook.cli.admission import AdmissionVerdict
from webhook.cli.console import FILE, PROBLEMS, UNUSABLE, fail, standard_input
from webhook.cli.documents import Document, Unusable
from webhook.cli.findings import FindingsTaker, Printed, Sourced
from webhook.cli.next_pod import After
from webhook.cli.policy_file import default_profile, profile_of, usable_policy
from webhook.cli.terminal import Progress
from webhook.kube import names
from webhook.objects.left_out import LeftOut
from webhook.objects.patch import at
from webhook.objects.problem import Json
from webhook.objects.problem import Path as FieldPath

NAMESPACE: Final = re.compile(r"""\bkind["']?\s*:\s*["']?Namespace""")


def on_files(command: Callable[..., None]) -> Callable[..., None]:
    """Decorate `render` and `check` with their common options, handling of signals, and errors of the output."""

    @functools.wraps(command)
    def filtering(**options: Any) -> None:
        # `| head` and Ctrl-C end the command at once and without a message, with the exit code that shells expect.
        for number in (signal.SIGINT, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        if isinstance(sys.stdout, io.TextIOWrapper):  # None if it is closed
            sys.stdout.reconfigure(encoding="utf-8")  # whatever the locale: kubectl reads nothing else
        try:
            command(**options)
        except OSError as error:
            fail(f"the output cannot be written: {error.strerror}; write it elsewhere")

    for option in (
        click.option(
            "--profile",
            "profile_name",
            metavar="NAME",
            help="Profile to apply.  [default: that of the Namespace if this is in the files, else default]",
        ),
        click.option(
            "--policy",
            type=FILE,
            metavar="FILE",
            help="Policy, or the ConfigMap with it. Default: the packaged policy.",
        ),
        click.option(
            "-f",
            "files",
            multiple=True,
            metavar="FILE|FOLDER|-",
            help="Manifests; of a folder and its subfolders the files *.yaml, *.yml and *.json. May be repeated.",
        ),
    ):
        filtering = option(filtering)
    return filtering


class Run:
    """One run of `render` or `check`: its policy and profiles, its documents, and its exit code so far.

    `report` takes what is found. `warnings_fail`: whether a warning gives the exit code of a problem.
    """

    def __init__(  # noqa: PLR0913 - two of them have a default
        self,
        files: tuple[str, ...],
        policy: Path | None,
        profile_name: str | None,
        report: FindingsTaker | None = None,
        progress: Progress | None = None,
        *,
        warnings_fail: bool = False,
    ) -> None:
        if not files:
            raise click.UsageError("-f is missing; name a file, a folder, or - for stdin")
        self.files = files
        self.report = report or Printed()
        self.progress = progress or Progress(is_shown=False)
        self.warnings_fail = warnings_fail
        self.policy = usable_policy(policy)
        self.profile_name = profile_name or default_profile(self.policy)
        profile_of(self.policy, self.profile_name)
        self.stdin = standard_input()
        self.streams: dict[str, bytes] = {}  # what was read of stdin and of pipes, which can be read once alone
        self.profiles = {} if profile_name is not None else self.profiles_of_namespaces()
        self.number_of_objects = 0
        self.exit_code = 0

    def profiles_of_namespaces(self) -> dict[str, str]:
        """Return the profiles that the Namespaces in the files are labelled with, by the name of the Namespace.

        Without those that the policy does not have. A Namespace may come after the objects in it, so the files with
        Namespaces are read twice.
        """
        found: dict[str, str] = {}
        for file in dict.fromkeys(self.files):
            try:
                if documents.is_stream(file):
                    self.streams[file] = self.bytes_of(file)
                for document in self.read(file, _has_opted_in_namespaces):
                    if isinstance(document, Document):
                        found.update(_opted_in(root for _, root in document.objects()))
            except OSError:
                continue  # reported when the documents are judged
        return {name: profile for name, profile in found.items() if profile in self.policy.profiles}

    def bytes_of(self, file: str) -> bytes:
        """Return what a file, stdin or a pipe holds, as much as is read of a file; raise OSError."""
        if file == documents.STDIN:
            return self.stdin.read(documents.LARGEST + 1)
        with open(file, "rb") as opened:  # noqa: PTH123 - as a Path, "" would be the current folder
            return opened.read(documents.LARGEST + 1)

    def read(self, file: str, is_wanted: documents.IsWanted = documents.always) -> Iterator[Document | Unusable]:
        """Yield the documents in a file, those of a stream as they were read before."""
        if file in self.streams:
            return documents.read_stream(file, self.streams[file], is_wanted)
        return documents.read(file, self.stdin, is_wanted)

    def profile_for(self, root: Json) -> str:
        """Return the name of the profile under which an object is judged."""
        namespace = at(root, ("metadata", "namespace"))
        return self.profiles.get(namespace, self.profile_name) if isinstance(namespace, str) else self.profile_name

    def documents(self) -> Iterator[Document]:
        """Yield the documents; report warnings about them, and what cannot be read."""
        for file in self.files:
            try:
                if documents.is_stream(file) and file not in self.streams:
                    self.streams[file] = self.bytes_of(file)
                for found in self.read(file):
                    if isinstance(found, Document):
                        self.show_progress(found)
                        self.warn(found, "", admission.warnings(found))
                        yield found
                    else:
                        self.refuse(found)
            except OSError as error:
                self.refuse(documents.unreadable(file, error))
        self.progress.clear()

    def text_of(self, file: str) -> str:
        """Return the text of a file that was read before; empty if it cannot be read again."""
        with suppress(OSError, UnicodeDecodeError):
            return documents.text_in(self.streams[file] if file in self.streams else self.bytes_of(file))
        return ""

    def show_progress(self, document: Document) -> None:
        """Show how many objects are judged so far, and the file that is being read."""
        self.progress.show(f"{self.number_of_objects:,} objects judged; reading {document.file}")

    def refuse(self, unusable: Unusable) -> None:
        """Report what cannot be read, and set the exit code."""
        self.progress.clear()
        self.report.refuse(unusable)
        self.exit_code = UNUSABLE

    def warn(self, document: Document, name: str, warnings: Sourced) -> None:
        """Report warnings about a document, or about the object `name` in it."""
        for one in warnings:
            self.progress.clear()
            self.report.add("warning", document, name, [one])
            if self.warnings_fail:
                self.exit_code = self.exit_code or PROBLEMS

    def judge(  # noqa: PLR0913 - two of them have a default
        self,
        document: Document,
        path: FieldPath,
        root: Json,
        attempt: int | None,
        *,
        compare: bool = False,
        after: After | None = None,
    ) -> AdmissionVerdict | None:
        """Return the verdict on the object at `path` in a document, and edit the object; report what is found.

        None if the object makes that raise: it is refused, and nobody may use what became of it.
        """

        def refuse(line: str) -> None:
            what, _, remedy = line.rpartition("; ")
            self.refuse(Unusable(document.file, document.number, None, what, remedy))

        with LeftOut(refuse).around(root["kind"], root, passing=(OSError,)):  # of the output
            name = admission.full_name_of(root)
            verdict = admission.admit(root, self.policy, self.profile_for(root), attempt, compare=compare, after=after)
            problem_rules = [verdict.rule_of(problem) for problem in verdict.problems]
            warning_rules = [verdict.rule_of(warning) for warning in verdict.warnings]
            verdict.problems = admission.prefixed(path, verdict.problems)
            self.number_of_objects += 1
            self.show_progress(document)
            self.report.judged(document, name)
            self.warn(document, name, zip(warning_rules, admission.prefixed(path, verdict.warnings), strict=True))
            if verdict.problems:
                self.progress.clear()
                self.report.add("problem", document, name, zip(problem_rules, verdict.problems, strict=True))
                self.exit_code = self.exit_code or PROBLEMS
            return verdict
        return None


def _has_opted_in_namespaces(text: str) -> bool:
    return names.PROFILE in text and NAMESPACE.search(text) is not None


def _opted_in(roots: Iterable[Json]) -> Iterator[tuple[str, str]]:
    for root in roots:
        name, profile = at(root, ("metadata", "name")), at(root, ("metadata", "labels", names.PROFILE))
        if (
            (root["apiVersion"], root["kind"]) == ("v1", "Namespace")
            and isinstance(name, str)
            and isinstance(profile, str)
        ):
            yield name, profile
