"""retry-policy render."""

import functools
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click

from webhook.accounts import words
from webhook.cli import writing
from webhook.cli.admission import AdmissionVerdict
from webhook.cli.console import printable
from webhook.cli.findings import Printed
from webhook.cli.main import is_for_people
from webhook.cli.manifests import Run, on_files
from webhook.cli.next_pod import After, Ended, parsed
from webhook.cli.terminal import Progress, command
from webhook.objects.problem import Json, field
from webhook.policy.model import Profile
from webhook.policy.settings import resolve
from webhook.rules import annotations
from webhook.rules.pods import on_time
from webhook.systems.kinds import kind_of

HIGHEST_ATTEMPT: Final = 2147483647  # what an annotation may say
DIFF_COLOURS: Final = {"+": "green", "-": "red", "@": "cyan"}


def _ended(_context: click.Context, _option: click.Parameter, texts: tuple[str, ...]) -> tuple[Ended, ...]:
    """Return how attempts ended, as `--after` says it; raise BadParameter with all problems of a text."""
    found = []
    for text in texts:
        end, problems = parsed(text)
        if end is None:
            raise click.BadParameter("; ".join(map(str, problems)))
        found.append(end)
    return tuple(found)


@command(
    ("What admission would make of a manifest", "retry-policy render -f job.yaml"),
    ("Only what it would change, in all files of a folder", "retry-policy render -f manifests/ -o diff"),
    ("Where the third attempt of a Pod would run", "retry-policy render -f pod.yaml --policy policy.yaml --attempt 2"),
    (
        "The pod of a Job after one that ran out of memory",
        "retry-policy render -f job.yaml --policy policy.yaml --after cause=OOMKilled,node=n1",
    ),
    options_metavar="-f FILE|FOLDER|- [OPTIONS]",
)
@on_files
@click.option(
    "--attempt",
    type=click.IntRange(min=0, max=HIGHEST_ATTEMPT),
    metavar="N",
    help="Render Pod documents as this attempt; 0 is the first.",
)
@click.option(
    "--after",
    "ends",
    multiple=True,
    callback=_ended,
    metavar="FIELD=VALUE,…",
    help="Render the pod after an attempt that ended so: cause, reason, container, exitCode, node, zone, message (as "
    "the last). A Job becomes its next pod. May be repeated, the oldest first.",
)
@click.option("-o", "output", type=click.Choice(["yaml", "json", "diff"]), default="yaml", show_default=True)
def render(  # noqa: PLR0913, PLR0917 - options
    files: tuple[str, ...],
    policy: Path | None,
    profile_name: str | None,
    attempt: int | None,
    ends: tuple[Ended, ...],
    output: str,
) -> None:
    """Print what admission would make of each document.

    Kinds that the policy does not know stay as they are. Problems and warnings go to stderr. Exit 0 if there are no
    problems, 1 if there are, 2 if some input cannot be read.
    """
    run = Run(files, policy, profile_name, Printed(problems_to_stderr=True), Progress(is_shown=not is_for_people()))
    write = functools.partial(click.echo, nl=False)
    after = After(ends, datetime.now(UTC).replace(microsecond=0)) if ends else None
    placed: set[str] = set()  # the profiles of the Pods that are placed
    for index, document in enumerate(run.documents()):
        verdicts = []
        for path, root in document.objects():
            verdict = run.judge(document, path, root, attempt, compare=output == "diff", after=after)
            verdicts.append(verdict)
            if verdict is not None:
                under = run.profile_for(root)
                placed |= {under} if verdict.placed else set()
                name = printable(f"{document.file}:{document.number} {field(path)}".rstrip())
                _tell_deadlines(name, root, verdict, run.policy.profiles[under])
                write(_diff(name, verdict, root) if verdict.before else "")
        if None in verdicts:  # half of admission may be in it
            continue
        if output == "json":
            writing.write_json(document.value, write)
        elif output == "yaml":
            write("---\n" * bool(index))
            writing.write_yaml(document.value, write)
    for name in sorted(one for one in placed if run.policy.profiles[one].placement.provider == "auto"):
        where = f"profiles.{name}.placement.provider"
        click.echo(f"warning: {where}: is auto, and there are no nodes to look at; name one to see placement", err=True)
    if after is not None and not placed:
        click.echo("warning: --after: there is no Job or Pod that is placed; name a file with one", err=True)
    elif attempt is not None and not placed:
        click.echo("warning: --attempt: there is no Pod that is placed by it; name a file with one", err=True)
    sys.exit(run.exit_code)


def _tell_deadlines(name: str, root: Json, verdict: AdmissionVerdict, profile: Profile) -> None:
    """Print until when the pods of an object would start on spot nodes if it were created now, if it has a deadline."""
    kind, now = kind_of(root), time.time()
    for job in () if kind is None or verdict.problems else kind.jobs(root):
        settings = resolve("", profile, annotations.of_job(root, job))
        slack = on_time.slack_of({"metadata": {}, "spec": job.spec}, None, settings, on_time.SavedWork(), now)
        if slack is not None:
            click.echo(f"{name}: created now, the deadline is {words.deadline(slack, now)}", err=True)


def _diff(name: str, verdict: AdmissionVerdict, root: Json) -> str:
    lines = writing.as_diff(name, verdict.before, writing.as_yaml(root), denied=bool(verdict.problems))
    return "".join(click.style(f"{line}\n", fg=DIFF_COLOURS.get(line[:1])) for line in lines)
