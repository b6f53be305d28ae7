"""retry-policy simulate."""

import time
from functools import partial
from pathlib import Path
from typing import Final

import click

from webhook.cli import documents, forms, terminal
from webhook.cli.cluster import ask, kubeconfig_or_default
from webhook.cli.console import (
    FILE,
    fail,
    kubeconfig_option,
    leaving_out,
    namespace_option,
    printable,
    standard_input,
)
from webhook.cli.documents import Unusable
from webhook.cli.policy_file import profile_of, usable_policy
from webhook.cli.report import policy_in
from webhook.cli.terminal import Progress, command
from webhook.history import reading
from webhook.history.reading import NoHistoryError
from webhook.history.record import Record
from webhook.insight.report.load import Loaded, Loader, NothingReadError, ReportScope
from webhook.insight.simulate import live, past, render, result, sweep
from webhook.insight.simulate.prediction import Played, Simulator
from webhook.insight.simulate.replay import Said
from webhook.insight.simulate.sweep import Curve, Measure, Point, Sweep
from webhook.kube.client import Api
from webhook.kube.kubeconfig import Kubeconfig
from webhook.objects.left_out import LeftOut
from webhook.objects.times import written
from webhook.policy import deadline
from webhook.policy.model import Policy
from webhook.policy.reader import duration

REPLICATIONS: Final = 200
OF_A_SWEEP: Final = 50
MOST_REPLICATIONS: Final = 10_000


def _sweep_of(_context: click.Context, _parameter: click.Parameter, text: str | None) -> Sweep | None:
    try:
        return None if text is None else sweep.read(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _late_of(_context: click.Context, _parameter: click.Parameter, text: str | None) -> float | None:
    found = None if text is None else deadline.FACTOR.fullmatch(text)
    if text is not None and (found is None or float(found[1]) < 1):
        raise click.BadParameter(f"{text!r} is no factor of 1 or more; write one such as 2x")
    return None if found is None else float(found[1])


def _seconds_of(_context: click.Context, _parameter: click.Parameter, text: str | None) -> int | None:
    found = None if text is None else duration(text)
    if text is not None and found is None:
        raise click.BadParameter(f"{text!r} is no duration; write one such as 30m")
    return found


@command(
    (
        "What another policy would have done to the workloads of a history",
        "retry-policy simulate --history history/ --policy new.yaml",
    ),
    ("To what is still in the cluster, under the policy there", "retry-policy simulate --policy new.yaml"),
    (
        "To Jobs and pods as kubectl printed them; the policy that was in force is in old.yaml",
        "kubectl get job,pod,node,account -Ao json | retry-policy simulate -f - --from old.yaml --policy new.yaml",
    ),
    (
        "Which threshold is best",
        "retry-policy simulate --history history/ --sweep placement.interruptibleFailureThreshold=-3..3",
    ),
    (
        "Which deadline is cheapest, if nothing may take more than twice as long as alone",
        "retry-policy simulate --history history/ --sweep deadline.factor=null,1,2,3 --late 2x --checkpoint 30m",
    ),
)
@click.option(
    "--history", "histories", multiple=True, metavar="FILE|FOLDER|-", help="Records, or the server's log; .gz too."
)
@click.option(
    "-f", "dumps", multiple=True, metavar="FILE|FOLDER|-", help="Jobs and pods as kubectl get -o json prints them."
)
@click.option(
    "--from",
    "in_force",
    type=FILE,
    metavar="FILE",
    help="The policy that was in force.  [default: of a cluster the one in it, else the packaged policy]",
)
@click.option("--policy", type=FILE, metavar="FILE", help="The other policy.")
@click.option(
    "--sweep",
    "swept",
    metavar="FIELD=VALUES",
    callback=_sweep_of,
    help="Try values of a field of the profiles: FIRST..LAST, or VALUE,VALUE.",
)
@click.option("--profile", "profile_name", metavar="NAME", help="With --sweep: change this profile alone.")
@click.option(
    "--best",
    "measure",
    type=click.Choice(["money", "time"]),
    help="What the best value of a sweep has least of, per complete workload.  [default: money if known]",
)
@click.option(
    "--late",
    metavar="FACTOR",
    callback=_late_of,
    help="Count what takes longer than this multiple of its work and a start, such as 2x; the best value has least.",
)
@click.option(
    "--checkpoint",
    metavar="DURATION",
    callback=_seconds_of,
    help="How much of its work the end of a pod costs a program at most, such as 30m.  [default: all]",
)
@namespace_option
@click.option(
    "--replications",
    type=click.IntRange(1, MOST_REPLICATIONS),
    metavar="NUMBER",
    help=f"How often each workload is replayed.  [default: {REPLICATIONS}; of a sweep {OF_A_SWEEP}]",
)
@click.option("--seed", type=click.IntRange(0, 2**31), default=0, help="Equal seeds give equal figures.  [default: 0]")
@click.option("-o", "output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@kubeconfig_option
@leaving_out
def simulate(  # noqa: PLR0913 - one parameter for each option
    *,
    histories: tuple[str, ...],
    dumps: tuple[str, ...],
    in_force: Path | None,
    policy: Path | None,
    swept: Sweep | None,
    profile_name: str | None,
    measure: Measure | None,
    late: float | None,
    checkpoint: int | None,
    namespace: str | None,
    replications: int | None,
    seed: int,
    output: str,
    kubeconfig: Kubeconfig,
    left_out: LeftOut,
) -> None:
    """Replay history under another policy, and print what it would have changed.

    Attempts, money and time of each namespace, and the workloads that would fare worse; beside it what was seen, what
    a replay of the policy in force gives, and what is assumed. Without --history and -f it reads what the cluster
    still has, with your rights. Changes nothing. Exit 0, or 2 if some input cannot be read.
    """
    if policy is None and swept is None:
        raise click.UsageError("there is no other policy; name one with --policy, or values of a field with --sweep")
    progress = Progress()
    records: list[Record]
    if histories or dumps:
        before = usable_policy(in_force)
        records = _read(histories, dumps, before, namespace, progress, left_out)
    else:
        file = kubeconfig_or_default(kubeconfig)
        before, records = _of_cluster(file, in_force, namespace, progress, left_out)
    after = before if policy is None else usable_policy(policy)
    if profile_name is not None:
        profile_of(after, profile_name)
    said = Said(checkpoint, late)
    simulator = Simulator(past.read(records, time.time()), before, seed, after.prices, said)
    if not simulator.workloads:
        where = "" if namespace is None else f" of namespace {namespace}"
        fail(f"no workload{where} has ended in this history, so that nothing can be replayed")
    used = {one.shape.profile for one in simulator.workloads}
    if used.isdisjoint(after.profiles):
        these, those = (", ".join(sorted(one)[:5]) for one in (used, after.profiles))
        what = f"the history has the profile {these}, the other policy {those}"
        fail(f"{what}: profiles are matched by name; rename one in the policy")
    if swept is not None:
        drawn = _curve_of(simulator, after, swept, profile_name, measure, replications or OF_A_SWEEP, progress)
        progress.clear()
        _show(drawn, output)
        return
    asked = replications or REPLICATIONS
    now = simulator.play(before, asked, partial(_tell, progress, "the policy in force"), anew=True)
    then = simulator.play(after, asked, partial(_tell, progress, "the other policy"))
    progress.clear()
    _show(result.simulation(simulator, after, now, then), output)


def _show(found: result.Simulation | Curve, output: str) -> None:
    if output == "json":
        click.echo(forms.encoded(found), nl=False)
    else:
        terminal.show(render.curve(found) if isinstance(found, Curve) else render.parts(found))


def _curve_of(  # noqa: PLR0913, PLR0917 - what the options say
    simulator: Simulator,
    policy: Policy,
    swept: Sweep,
    profile: str | None,
    measure: Measure | None,
    replications: int,
    progress: Progress,
) -> Curve:
    """Replay under each value; exit 2 if no value makes a policy."""
    points: list[Point] = []
    field = ".".join(swept.field)
    plays: list[Played] = []
    for value, changed, problems in sweep.policies(swept, policy, profile):
        if changed is None:
            points.append(Point(value=value, problems=[str(problem) for problem in problems]))
            continue
        played = simulator.play(changed, replications, partial(_tell, progress, f"{field}={value}"))
        points.append(sweep.point(value, result.plain(played.prediction())))
        plays.append(played)
    if not plays:
        fail(*(f"{field}={one.value}: {one.problems[0]}" for one in points))
    has_prices = all(played.has_prices for played in plays)
    by = measure or ("money" if has_prices else "time")
    if by == "money" and not has_prices:
        fail(*(f"{line}; use --best time" for line in result.why_no_money(simulator, *plays)))
    return Curve(
        field=field,
        since=written(simulator.history.begin),
        until=written(simulator.history.end),
        workloads=len(simulator.workloads),
        replications=plays[-1].replications,
        seed=simulator.seed,
        currency=simulator.currency,
        measure=by,
        points=points,
        best=sweep.best_of(points, by),
        assumptions=result.assumptions(simulator, policy, *plays),
    )


def _tell(progress: Progress, what: str, done: int, of: int) -> None:
    progress.show(f"{what}: {done} of {of} replications")


def _of_cluster(
    kubeconfig: Kubeconfig, in_force: Path | None, namespace: str | None, progress: Progress, left_out: LeftOut
) -> tuple[Policy, list[Record]]:
    """Return the policy in force, and the records of what a cluster has; exit 2 if it cannot be read."""

    async def loaded() -> tuple[Loaded, Policy | None, list[str]]:
        notes: list[str] = []
        async with await Api.connect(kubeconfig) as api:
            api.left_out = left_out
            found = await Loader(api, ReportScope(namespace), progress.show, left_out).load()
            return found, await policy_in(api, notes), [*found.notes, *notes]

    try:
        found, policy, notes = ask(kubeconfig, loaded())
    except NothingReadError as error:
        progress.clear()
        fail(str(error))
    progress.clear()
    if notes:
        click.echo(printable(f"some things cannot be read; ask for the rights: {'; '.join(notes)}"), err=True)
    before = usable_policy(in_force) if policy is None or in_force is not None else policy
    return before, list(live.records_of(found, before, left_out))


def _read(  # noqa: PLR0913, PLR0917 - what the options say
    histories: tuple[str, ...],
    dumps: tuple[str, ...],
    policy: Policy,
    namespace: str | None,
    progress: Progress,
    left_out: LeftOut,
) -> list[Record]:
    """Return the records in files, and those that are made of dumps, of one namespace or of all.

    Say which lines are no records; exit 2 if a file cannot be read.
    """
    source = standard_input()
    try:
        found = reading.read(histories, source, lambda one: namespace in {None, one.namespace}, progress.show)
    except NoHistoryError as error:
        progress.clear()
        fail(str(error))
    if found.bad:
        progress.clear()
        click.echo(printable(f"{found.bad:,} lines left out, of which: {'; '.join(found.problems)}"), err=True)
    objects = []
    for place in dumps:
        for document in documents.read(place, source):
            if isinstance(document, Unusable):
                fail(str(document))
            objects += [root for _, root in document.objects()]
    made = live.records_of(live.loaded(objects, left_out), policy, left_out)
    of_dumps = [one for one in made if namespace in {None, one.namespace}]
    return [*found.attempts.values(), *found.workloads.values(), *of_dumps]
