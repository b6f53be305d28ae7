"""retry-policy retry: finds what is to run again, and reruns it with the rights of the user."""

import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

import click

from webhook.cli.cluster import NotOneError, ask, find, kubeconfig_or_default
from webhook.cli.console import (
    PROBLEMS,
    ObjectArgument,
    kubeconfig_option,
    leaving_out,
    object_argument,
    printable,
    workload_argument,
)
from webhook.cli.terminal import command
from webhook.kube import terminal
from webhook.kube.client import UNREACHABLE, Api, ApiError
from webhook.kube.kubeconfig import Kubeconfig
from webhook.kube.paths import is_name
from webhook.objects.left_out import LeftOut
from webhook.objects.problem import Json, Problem
from webhook.objects.times import seconds
from webhook.policy.reader import duration
from webhook.retry import executor, reading
from webhook.retry.reading import LONGEST_ERROR, RefusedError, StuckError
from webhook.systems import refusals
from webhook.systems.adapter import Adapter
from webhook.systems.job import rerun as of_job
from webhook.systems.kinds import WORDS
from webhook.systems.reruns import ADAPTERS

# By the words for each kind; of two kinds with one word, as Job, the first.
BY_NAME: Final = {
    word: one
    for kind, one in reversed(ADAPTERS.items())
    for word in (WORDS[kind], kind.resource, f"{kind.resource}.{kind.group}")
}
KINDS: Final = ", ".join(WORDS[kind] for kind in ADAPTERS)
ANSWERS: Final = (ApiError, *UNREACHABLE, RefusedError, StuckError)  # errors that are not those of an object


@command(
    ("One Job that has failed", "retry-policy retry ml/job/train"),
    (
        "All Jobs of one team that failed in the last two hours; first only list them",
        "retry-policy retry ml/job -l team=vision --failed-since 2h --dry-run",
    ),
    help=f"""Rerun what failed of a workload; KIND is one of {KINDS}.

    What succeeded does not run again. Reruns only objects with the annotation retry-policy.dev/retryable: "true". The
    kind can be left out if one object has the name. Exit 0 if everything will run again, 1 if something was refused, 2
    if the cluster cannot be asked.
    """,
)
@workload_argument("target", ADAPTERS)
@click.option("-l", "selector", metavar="SELECTOR", help="Rerun the failed ones with these labels.")
@click.option("--failed-since", metavar="DURATION", help="Rerun those that failed in the last 90s, 1h30m or 24h.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Only print what would run again, after asking the API server whether it would accept it.",
)
@click.option("--keep-finally", is_flag=True, help="PipelineRun: do not rerun the tasks of finally that succeeded.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@kubeconfig_option
@leaving_out
def retry(
    target: str,
    selector: str | None,
    failed_since: str | None,
    kubeconfig: Kubeconfig,
    left_out: LeftOut,
    **flags: bool,
) -> None:
    """Rerun what failed of a workload."""
    wanted = target_of(target, selector, failed_since, keep_finally=flags["keep_finally"])

    file = kubeconfig_or_default(kubeconfig)
    agreed = (lambda _: True) if flags["yes"] else is_confirmed
    conclude(file, _rerun(file, wanted, agreed, left_out, dry_run=flags["dry_run"]))


def is_confirmed(lines: list[str]) -> bool:
    """Print what would run again, and return the user's answer; raise click.UsageError if there is no terminal."""
    for line in lines:
        click.echo(printable(line))
    try:
        return click.confirm("Rerun?")
    except (click.Abort, RuntimeError):  # RuntimeError: stdin is closed
        if sys.stdin is not None and sys.stdin.isatty():
            raise  # Ctrl-C or Ctrl-D
        click.echo(err=True)
        raise click.UsageError("nothing was changed: stdin has no answer; use --yes") from None


@dataclass(frozen=True, slots=True)
class Target:
    """What the command line names: one object, or with an empty `name` all failed ones of a kind that are selected.

    `adapter`: None if the user left out the kind. `failed_since`: the failure is at most so many seconds ago.
    `keep_finally`: whether tasks of `finally` that succeeded do not run again.
    """

    namespace: str
    adapter: Adapter | None
    name: str = ""
    selector: str | None = None
    failed_since: int | None = None
    keep_finally: bool = False


@dataclass(frozen=True, slots=True)
class Planned:
    """An object that can run again, and what of it will; if the retry of a Job has begun, its placeholder."""

    adapter: Adapter
    run: Json
    what_reruns: str


@dataclass(slots=True)
class RetryOutcome:
    """What was done, what was refused and why, and the API server's warnings; a line for each."""

    done: list[str] = field(default_factory=list)
    refused: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def target_of(text: str, selector: str | None, failed_since: str | None, *, keep_finally: bool = False) -> Target:
    """Return the target of NAMESPACE/[KIND/]NAME, or of NAMESPACE/KIND with a selection; raise click.UsageError."""
    within = None if failed_since is None else duration(failed_since)
    if failed_since is not None and within is None:
        raise click.UsageError(f"--failed-since {failed_since!r} is not a duration; write 90s, 1h30m or 24h")
    namespace, _, kind = text.partition("/")
    adapter = BY_NAME.get(kind.lower())
    if selector is None and failed_since is None:
        if adapter is not None and is_name(namespace):
            what = f"{text!r} names no {adapter.kind.kind}"
            raise click.UsageError(f"{what}; write {text}/NAME, or choose with -l or --failed-since")
        one = object_argument(text, ADAPTERS)
        adapter = None if one.kind is None else ADAPTERS[one.kind]
        namespace, name = one.namespace, one.name
    elif adapter is None or not is_name(namespace):
        what = f"-l and --failed-since choose from NAMESPACE/KIND, and {text!r} is none"
        raise click.UsageError(f"{what}; KIND is one of {KINDS}")
    else:
        name = ""
    if keep_finally and adapter is not None and not adapter.has_finally:
        raise click.UsageError(str(_no_finally(adapter)))
    return Target(namespace, adapter, name, selector, within, keep_finally)


def _no_finally(adapter: Adapter) -> Problem:
    return Problem((), f"--keep-finally is for PipelineRuns, and this is a {adapter.kind.kind}", "leave it out")


async def adapter_of(api: Api, target: Target) -> Adapter:
    """Return the adapter of the kind that is meant; raise NotOneError if no kind or several have the name."""
    if target.adapter is not None:
        return target.adapter
    held = await reading.placeholders(api, target.namespace)
    if any(of_job.state_of(one).name == target.name for one in held):
        return of_job.ADAPTER  # a Job whose retry has begun may be deleted already
    kind, _ = await find(api, ObjectArgument(target.namespace, None, target.name), list(ADAPTERS))
    return ADAPTERS[kind]


async def _rerun(
    kubeconfig: Kubeconfig, target: Target, agreed: Callable[[list[str]], bool], left_out: LeftOut, *, dry_run: bool
) -> RetryOutcome:
    """Rerun the target, or with `dry_run` only find out whether it can run again; raise what `Api` raises.

    `agreed` gets the lines that say what would run again, and returns whether to rerun it.
    """
    outcome = RetryOutcome()
    async with await Api.connect(kubeconfig) as api:
        api.left_out = left_out
        try:
            adapter = await adapter_of(api, target)
        except NotOneError as error:
            outcome.refused.append(error.problem)
            return outcome
        if target.keep_finally and not adapter.has_finally:
            outcome.refused.append(_no_finally(adapter))
            return outcome
        planned = [one async for one in _chosen(api, target, adapter, outcome.refused, left_out)]
        if not planned and not outcome.refused and not left_out.number:
            how = f"kubectl get -n {target.namespace} {adapter.kind.resource}"
            what = f"no {adapter.kind.kind} in {target.namespace} that you chose has failed"
            outcome.warnings.append(f"{what}; list them: {how}")
        if not planned or not (dry_run or agreed([f"{one.what_reruns} would run again" for one in planned])):
            return outcome
        by, when = await api.username(), _now()
        for one in planned:
            try:
                with left_out.around(one.adapter.kind.kind, one.run, ANSWERS):
                    await _carry_out(api, one, by, when, keep_finally=target.keep_finally, dry_run=dry_run)
                    outcome.done.append(f"{one.what_reruns} {'would' if dry_run else 'will'} run again")
            except (RefusedError, StuckError) as error:
                outcome.refused.append(error.problem)
            except (ApiError, *UNREACHABLE) as error:
                answer = (str(error) or repr(error))[:LONGEST_ERROR]
                what = f"{refusals.kind_and_name(one.adapter.kind.kind, one.run)}: the API server refused: {answer}"
                outcome.refused.append(Problem((), what, "run the same command again to continue"))
    return outcome


async def _chosen(
    api: Api, target: Target, adapter: Adapter, refused: list[Problem], left_out: LeftOut
) -> AsyncIterator[Planned]:
    """Yield what can run again, first retries that have begun; add to `refused` why the others cannot."""
    placeholders = await reading.placeholders(api, target.namespace) if adapter.in_place is None else []
    begun: dict[str, Planned] = {}
    for one in placeholders if adapter is of_job.ADAPTER else ():
        with left_out.around(adapter.kind.kind, one):
            begun[of_job.state_of(one).name] = Planned(adapter, one, of_job.what_reruns(one))
    for name, held in begun.items():
        if target.name in {name, ""}:
            yield held
    if target.name in begun:
        return
    async for root in _candidates(api, target, adapter, refused):
        planned = None
        with left_out.around(adapter.kind.kind, root, ANSWERS):
            if root["metadata"]["name"] not in begun:
                planned = await _plan(api, target, adapter, root, placeholders, refused)
        if planned is not None:
            yield planned


async def _plan(  # noqa: PLR0913, PLR0917 - what is known of the object
    api: Api, target: Target, adapter: Adapter, root: Json, placeholders: list[Json], refused: list[Problem]
) -> Planned | None:
    """Return what of an object can run again; None if nothing can, after adding to `refused` why."""
    if not target.name and adapter.runs is None and not has_failed(root, target.failed_since):
        return None
    found = await reading.read(api, adapter, root, _now(), keep_finally=target.keep_finally, known=placeholders)
    run = found.placeholder or found.run
    if not target.name and found.placeholder is None and not (run and has_failed(run, target.failed_since)):
        return None
    problem = adapter.refusal(found) if found.placeholder is None else None
    if problem is not None:
        what = problem.what if run else f"{refusals.kind_and_name(adapter.kind.kind, root)}: {problem.what}"
        refused.append(Problem((), what, problem.remedy))
        return None
    return None if run is None else Planned(adapter.of_run, run, adapter.what_reruns(found))


async def _candidates(api: Api, target: Target, adapter: Adapter, refused: list[Problem]) -> AsyncIterator[Json]:
    kind = adapter.kind
    if target.name:
        one = await api.find(kind.path(target.namespace, target.name))
        if one is None:
            refused.append(await reading.absent(api, kind, target.namespace, target.name))
        else:
            yield one
        return
    query = {} if target.selector is None else {"labelSelector": target.selector}
    async for one in api.objects(kind.path(target.namespace), query):
        yield one


async def _carry_out(  # noqa: PLR0913 - as `executor.rerun`
    api: Api, planned: Planned, by: str, when: str, *, keep_finally: bool, dry_run: bool
) -> None:
    """Rerun one object; raise RefusedError, StuckError, and what `Api` raises."""
    adapter, run = planned.adapter, planned.run
    missing = await reading.missing_rights(api, run["metadata"]["namespace"], adapter.rights(run))
    if missing:
        lacking = ", ".join(str(right) for right in missing)
        name = refusals.kind_and_name(adapter.kind.kind, run)
        raise RefusedError(f"{name} is unchanged: you may not {lacking}", "ask an admin for these rights")
    await executor.rerun(api, adapter, run, by, when, keep_finally=keep_finally, dry_run=dry_run)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def has_failed(root: Json, within: int | None) -> bool:
    """Return True if an object has failed, and did so within the last `within` seconds."""
    if not terminal.has_failed(root):
        return False
    ended = seconds(terminal.ended_at(root))
    return within is None or ended is None or datetime.now(UTC).timestamp() - ended <= within


def conclude(file: Kubeconfig, work: Coroutine[None, None, RetryOutcome]) -> None:
    """Run `work` against the cluster of a kubeconfig, print its outcome, and exit."""
    outcome = ask(file, work)
    for line in outcome.done:
        click.echo(printable(line))
    for line in [*(f"warning: {one}" for one in outcome.warnings), *map(str, outcome.refused)]:
        click.echo(printable(line), err=True)
    if not outcome.done and not outcome.refused:
        click.echo("nothing was changed", err=True)
    sys.exit(PROBLEMS if outcome.refused else 0)
