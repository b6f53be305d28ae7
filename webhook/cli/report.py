"""retry-policy report."""

import asyncio
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import click

from webhook.admission.engine import read_policy
from webhook.cli import terminal
from webhook.cli.cluster import ask, kubeconfig_or_default
from webhook.cli.console import FILE, fail, kubeconfig_option, leaving_out, namespace_option, standard_input
from webhook.cli.policy_file import stored_policy, usable_policy
from webhook.cli.terminal import Progress, command
from webhook.history import reading
from webhook.history.reading import NoHistoryError
from webhook.insight.page import render as page
from webhook.insight.report import known, live, opencost, render, sums
from webhook.insight.report.build import About, build
from webhook.insight.report.known import Known, PriceOf, Window, lifetime
from webhook.insight.report.live import nodes_of
from webhook.insight.report.load import Loader, NothingReadError, ReportScope
from webhook.insight.report.model import Report
from webhook.insight.report.opencost import PricesUnreadableError, Source
from webhook.kube.client import Api, ApiError
from webhook.kube.kubeconfig import Kubeconfig
from webhook.objects.left_out import LeftOut
from webhook.objects.times import seconds
from webhook.policy.model import Policy

TEXT: Final = "text"
# The other forms of output: what returns the text of a report.
FORMS: Final[dict[str, Callable[[Report], str]]] = {"json": render.as_json, "csv": render.as_csv, "html": page.render}
AGO: Final = re.compile(r"([1-9][0-9]{0,5})([mhdw])")
SECONDS: Final = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
NO_PRICES: Final = "there are no prices: add them to the policy, or name a Prometheus with OpenCost with --prometheus"
LEFT_OUT: Final = "objects with which this program does not cope are left out: the command names them on stderr"
MOST_NOTES: Final = 20


class ReportQuestion(NamedTuple):
    """What a report of a cluster is about.

    - `policy`: None for that in the cluster.
    - `is_priced_by_policy`: whether sums of accounts are priced by it; not if another source prices the pods.
    """

    scope: ReportScope
    window: Window
    policy: Policy | None = None
    is_priced_by_policy: bool = True


class ReportFacts(NamedTuple):
    """What a report is made of; `policy`: None if it has no say in prices."""

    known: list[Known]
    policy: Policy | None
    notes: list[str]


def _moment(_ctx: click.Context, _param: click.Parameter, text: str | None) -> float | None:
    """Return a time in seconds since 1970: how long ago, or RFC 3339.

    Raise click.BadParameter if it is no time, or one before 1970.
    """
    if text is None:
        return None
    ago = AGO.fullmatch(text)
    at = seconds(text) if ago is None else time.time() - int(ago[1]) * SECONDS[ago[2]]
    if at is None or at < 0:
        remedy = "write how long ago, such as 90m, 12h, 7d or 4w, or 2026-11-21T15:00:00Z"
        raise click.BadParameter(f"{text!r} is no time since 1970 with a zone; {remedy}")
    return at


@command(
    ("What is in the cluster: what it used, what was lost to what", "retry-policy report"),
    ("One team, for a spreadsheet", "retry-policy report -n ml -o csv"),
    ("The last week, from the records of the server", "retry-policy report --history /history --since 7d"),
    ("A page for a browser, or to send to somebody", "retry-policy report -o html > report.html"),
    (
        "The same from the log of all replicas",
        (
            "kubectl logs -n retry-policy-system -l app.kubernetes.io/name=retry-policy-webhook --tail=-1"
            " | retry-policy report --history - --since 7d"
        ),
    ),
)
@namespace_option
@click.option("--profile", metavar="NAME", help="Only workloads under this profile.")
@click.option("-l", "--selector", metavar="SELECTOR", help="Only workloads that this label selector selects.")
@click.option(
    "--since", callback=_moment, metavar="TIME", help="Only what ended since then: 90m, 12h, 7d, 4w, or RFC 3339."
)
@click.option("--until", callback=_moment, metavar="TIME", help="Only what ended before.")
@click.option(
    "--history",
    multiple=True,
    metavar="FILE|FOLDER|-",
    help="Read records, or the server's log, instead of the cluster; .gz too. Can be repeated.",
)
@click.option(
    "--policy",
    type=FILE,
    metavar="FILE",
    help="Policy whose prices apply.  [default: of records their own, else the policy in the cluster]",
)
@click.option("--prometheus", metavar="URL", help="Take prices from this Prometheus, which scrapes OpenCost.")
@click.option("--prometheus-token-file", type=FILE, metavar="FILE", help="Bearer token for Prometheus.")
@click.option("--prometheus-ca-file", type=FILE, metavar="FILE", help="Certificates of the authority of Prometheus.")
@click.option("-o", "output", type=click.Choice([TEXT, *FORMS]), default=TEXT, show_default=True)
@kubeconfig_option
@leaving_out
def report(  # noqa: PLR0913 - one parameter for each option
    *,
    namespace: str | None,
    profile: str | None,
    selector: str | None,
    since: float | None,
    until: float | None,
    history: tuple[str, ...],
    policy: Path | None,
    prometheus: str | None,
    prometheus_token_file: Path | None,
    prometheus_ca_file: Path | None,
    output: str,
    kubeconfig: Kubeconfig,
    left_out: LeftOut,
) -> None:
    """Print what workloads used, what they lost and to what, what was saved, and which nodes to suspect.

    Reads the cluster with your rights, and changes nothing: accounts, the pods that exist, nodes if you may. What you
    may not read is named in a note. A question about last month needs --history. Exit 0, or 2 if nothing can be read.
    """
    if history and selector is not None:
        raise click.UsageError("-l needs the cluster, because records have no labels; leave out -l or --history")
    if prometheus is None and (prometheus_token_file or prometheus_ca_file):
        raise click.UsageError("these files are for Prometheus; name it with --prometheus URL")
    window, scope = Window(since, until), ReportScope(namespace, profile, selector)
    given = None if policy is None else usable_policy(policy)
    source = None if prometheus is None else Source(prometheus, prometheus_token_file, prometheus_ca_file)
    progress = Progress()
    try:
        if history:
            facts, cluster = _of_history(history, scope, window, given, progress), ""
        else:
            file, question = kubeconfig_or_default(kubeconfig), ReportQuestion(scope, window, given, source is None)
            facts, cluster = ask(file, _loaded(file, question, progress, left_out)), file.cluster
        about = About("history" if history else "cluster", named(scope, cluster), window, time.time())
        made = made_of(facts, source, about, left_out)
    except (NoHistoryError, NothingReadError, PricesUnreadableError) as error:
        progress.clear()
        fail(str(error))
    progress.clear()
    if output == TEXT:
        terminal.show(render.parts(made))
    else:
        click.echo(FORMS[output](made))


def named(scope: ReportScope, cluster: str) -> str:
    """Return a scope in words; `cluster`: the name of the cluster, empty if it is not known."""
    of_cluster = f" of {cluster}" if cluster else ""
    said = [("All namespaces" if scope.namespace is None else f"Namespace {scope.namespace}") + of_cluster]
    said += [] if scope.profile is None else [f"profile {scope.profile}"]
    said += [] if scope.selector is None else [f"selector {scope.selector}"]
    return ", ".join(said)


def _of_history(
    paths: tuple[str, ...], scope: ReportScope, window: Window, policy: Policy | None, progress: Progress
) -> ReportFacts:
    wanted = known.wanted(window, scope.namespace, scope.profile)
    found = reading.read(paths, standard_input(), wanted, progress.show)
    notes = [f"{found.bad:,} lines were skipped, of which: {'; '.join(found.problems)}"] if found.bad else []
    return ReportFacts(known.recorded(found, window), policy, notes)


async def _loaded(
    kubeconfig: Kubeconfig, question: ReportQuestion, progress: Progress, left_out: LeftOut
) -> ReportFacts:
    async with await Api.connect(kubeconfig) as api:
        return await facts_in(api, question, progress.show, left_out)


async def facts_in(
    api: Api, question: ReportQuestion, progress: Callable[[str], None], left_out: LeftOut
) -> ReportFacts:
    """Return what a cluster has; raise NothingReadError, and what `Api` raises.

    `progress` is called with what is being read.
    """
    api.left_out, window = left_out, question.window
    found = await Loader(api, question.scope, progress, left_out).load()
    notes = list(found.notes)
    policy = await policy_in(api, notes) if question.policy is None else question.policy
    nodes = nodes_of(found.nodes, policy, left_out)
    prices = policy.prices if policy is not None and question.is_priced_by_policy else None
    row_price = sums.row_by_policy(prices)
    workloads = []
    for workload in live.grouped(found.jobs, found.job_sets, found.pods, found.others, found.accounts, left_out):
        with left_out.around(workload.root["kind"], workload.root):
            one, said = live.known_of(workload, nodes, window, row_price)
            workloads += [one] if live.is_in(one, window) else []
            notes += said
    notes = list(dict.fromkeys(notes))
    if len(notes) > MOST_NOTES:
        notes = [*notes[:MOST_NOTES], f"and {len(notes) - MOST_NOTES:,} more such notes"]
    return ReportFacts(workloads, policy, notes)


async def policy_in(api: Api, notes: list[str]) -> Policy | None:
    """Return the policy in a cluster; None, with a note, if there is none that can be read."""
    try:
        text = await stored_policy(api)
    except ApiError as error:
        notes.append(f"the policy cannot be read, so its prices are not known ({error}); name it with --policy FILE")
        return None
    policy, problems = (None, []) if text is None else read_policy(text)
    if problems:
        notes.append("the policy in the cluster has problems, so its prices are not known")
    return policy


def made_of(facts: ReportFacts, source: Source | None, about: About, left_out: LeftOut) -> Report:
    """Return the report; with a Prometheus outside of any event loop, and raise PricesUnreadableError."""
    notes, prices = list(facts.notes), None if facts.policy is None else facts.policy.prices
    price_of: PriceOf = sums.unpriced
    currency = ""
    if source is not None:
        price_of, currency = _priced_by(source, facts.known, about.now), "" if prices is None else prices.currency
        notes.append("prices are those of OpenCost, in its currency; what spot saved is not known")
    elif prices is not None:
        price_of, currency = sums.by_policy(prices), prices.currency
    elif about.source == "history":
        currency, said = sums.currency_of(facts.known)
        price_of = sums.by_records(currency) if currency else sums.unpriced
        notes += said
    priced = source is not None or bool(currency)
    if about.source == "history" and priced and prices is None:
        notes.append("what spot saved is not known from records alone: name a policy with prices with --policy")
    notes += [] if priced else [NO_PRICES]
    notes += [LEFT_OUT] if left_out.number else []
    about = about._replace(priced=priced, currency=currency, notes=tuple(notes))
    return build(facts.known, about, price_of, left_out)


def _priced_by(source: Source, known: list[Known], now: float) -> PriceOf:
    attempts = [(one, attempt) for one in known for attempt in (*one.attempts, *one.told)]
    starts = ((seconds(attempt.start), lifetime(one, attempt, now)[0]) for one, attempt in attempts)
    since = min((max(start, first) for start, first in starts if start is not None), default=now)
    return asyncio.run(opencost.prices(source, since, now))
