"""Prints a report: for people as lines and tables, as JSON, and as CSV with a line for each workload. Pure."""

import csv
import io
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from math import floor, log10
from typing import Final

import msgspec

from webhook.accounts.words import counted
from webhook.insight.report.model import PlaceRow, Report, Usage, WorkloadRow
from webhook.insight.report.sums import importance_by
from webhook.objects.columns import Part, Row
from webhook.policy.causes import CAUSES, LOSSES

MOST_LISTED: Final = 10  # workloads, places, and Jobs near their limits
MOST_REASONS: Final = 3  # of a workload
HOUR: Final = 3600.0
CENT: Final = 0.01
PERCENT: Final = 100
UNITS: Final = {"cpu": "CORE HOURS", "memory": "GIB HOURS"}
COLUMNS: Final = (
    *("namespace", "profile", "kind", "name", "uid", "owner", "state", "reason", "created", "end"),
    *("retries_left", "disruptions_left", "attempts", "attempts_lost", "attempts_lost_to_bugs"),
    *("attempts_lost_to_disruptions", "attempts_lost_to_capacity", "attempts_never_started", "attempts_lost_to_others"),
    *("seconds", "seconds_lost"),
    *("cpu_core_seconds", "cpu_core_seconds_lost", "memory_gib_seconds", "memory_gib_seconds_lost"),
    *("other_resource_seconds", "other_resource_seconds_lost", "price", "price_lost", "currency"),
)
# What a spreadsheet takes for a formula: at the start of a cell, whichever separator it divides a line at.
FORMULA: Final = re.compile(r"(^|[;,|])(\s*)([=+\-@])")


def as_json(report: Report) -> str:
    """Return a report as JSON."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode()


def as_csv(report: Report) -> str:
    """Return a line for each workload, those that lost most first, under a line of headings."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in report.workloads:
        writer.writerow(["" if cell is None else _plain(cell) for cell in _csv_cells(row, report.currency)])
    return text.getvalue().removesuffix("\n")


def _plain(cell: str | float) -> str | float:
    """Return a cell that no spreadsheet takes for a formula, and no terminal for a control sequence."""
    if not isinstance(cell, str):
        return cell
    escaped = "".join(one if one.isprintable() else repr(one)[1:-1] for one in cell)
    return FORMULA.sub(r"\1\2'\3", escaped)


def _csv_cells(row: WorkloadRow, currency: str) -> list[str | float | None]:
    used, lost, lost_to = row.figures.used, row.figures.lost, row.figures.lost_to
    return [
        *(row.namespace, row.profile, row.kind, row.name, row.uid, row.owner, row.state, row.reason),
        *(row.created, row.end, row.retries_left, row.disruptions_left, used.attempts, lost.attempts),
        *(lost_to[loss].attempts if loss in lost_to else 0 for loss in LOSSES),
        *(round(used.seconds, 3), round(lost.seconds, 3)),
        *(round(of.resources.get(name, 0.0), 3) for name in UNITS for of in (used, lost)),
        *(" ".join(f"{name}={amount:.3f}" for name, amount in _others(of)) for of in (used, lost)),
        *(used.price, lost.price, currency),
    ]


def _others(usage: Usage) -> list[tuple[str, float]]:
    return sorted((name, amount) for name, amount in usage.resources.items() if name not in UNITS)


def parts(report: Report) -> Iterator[Part]:
    """Yield lines and tables for people."""
    yield _title(report)
    total = report.total
    states = [f"{total.complete:,} complete", f"{total.failed:,} failed"]
    yield f"{total.workloads:,} workload{'' if total.workloads == 1 else 's'}, of which {' and '.join(states)}"
    if total.used.attempts:
        yield ""
        yield [*_usage_table(report)]
        yield from _goodput(report)
        yield from _savings(report)
        yield from _losers(report)
        yield from _suspects(report)
        yield from _broken(report)
    yield from _near_limits(report)
    if report.notes:
        yield ""
        yield from (f"note: {note}" for note in report.notes)


def _title(report: Report) -> str:
    since = f" since {report.since}" if report.since else ""
    until = f" until {report.until or report.written}"
    return f"{report.scope}:{since}{until}, from {'history' if report.source == 'history' else 'the cluster'}"


def _usage_table(report: Report) -> Iterator[Row]:
    total = report.total
    names = [*(name for name in UNITS if name in total.used.resources), *(name for name, _ in _others(total.used))]
    has_price = total.used.price is not None
    units = [UNITS.get(name, f"{name} HOURS") for name in names]
    yield ["", "ATTEMPTS", "HOURS", *units, *([report.currency or "PRICE"] if has_price else []), "SHARE"]
    importance = importance_by(total.used)
    rows = [
        ("used", total.used),
        ("  on spot", total.spot),
        ("  on-demand", total.on_demand),
        *([("  elsewhere", total.elsewhere)] if total.elsewhere.attempts else []),
        ("lost", total.lost),
        *((f"  {LOSSES[loss].told}", lost) for loss, lost in total.lost_to.items() if lost.attempts > 0),
    ]
    for name, usage in rows:
        cells = [f"{usage.attempts:,}", _hours(usage.seconds), *(_hours(usage.resources.get(one, 0)) for one in names)]
        price = [money(usage.price or 0)] if has_price else []
        yield [name, *cells, *price, f"{PERCENT * importance(usage) / (importance(total.used) or 1):.0f} %"]


def _goodput(report: Report) -> Iterator[str]:
    """Yield which share of what was used went into work that counts."""
    total, importance = report.total, importance_by(report.total.used)
    used, lost, kept = importance(total.used), importance(total.lost), importance(total.kept)
    if used:
        by_checkpoints = f", {PERCENT * kept / used:.0f} % of it by checkpoints" if kept else ""
        yield ""
        yield f"Goodput: {PERCENT * (used - lost + kept) / used:.0f} % of what was used{by_checkpoints}"


def _savings(report: Report) -> Iterator[str]:
    total = report.total
    found = []
    if total.saved_retries.attempts:
        retries = counted(total.saved_retries.attempts, "retry")
        found.append(f"{_amount(total.saved_retries, report)} by {retries} that bugs did not have")
    if total.saved_on_spot is not None:
        found.append(f"{money(total.saved_on_spot)} {report.currency} on spot nodes, compared with on-demand")
    if found:
        yield ""
        yield f"Saved: {'; '.join(found)}"


def _losers(report: Report) -> Iterator[Part]:
    """Yield a table of the workloads that lost most; those of one owner, such as a CronJob, are one line."""
    importance = importance_by(report.total.used)
    groups: dict[tuple[str, str], list[WorkloadRow]] = defaultdict(list)
    for row in report.workloads:
        if row.figures.lost.attempts:
            groups[row.namespace, row.owner or f"{row.kind}/{row.name}"].append(row)
    worst = sorted(groups.items(), key=lambda one: -sum(importance(row.figures.lost) for row in one[1]))
    if not worst:
        return
    yield ""
    yield f"The {len(worst[:MOST_LISTED])} workloads that lost most:" if len(worst) > 1 else "The workload that lost:"
    rows: list[Row] = [["WORKLOAD", "ATTEMPTS", "LOST", "HOURS LOST", *_price_heading(report), "WHY"]]
    for (namespace, name), found in worst[:MOST_LISTED]:
        lost = [row.figures.lost for row in found]
        prices = [money(sum(one.price or 0 for one in lost))] if report.total.used.price is not None else []
        rows.append(
            [
                f"{namespace}/{name}" + (f" ({counted(len(found), 'Job')})" if found[0].owner else ""),
                f"{sum(row.figures.used.attempts for row in found):,}",
                f"{sum(one.attempts for one in lost):,}",
                _hours(sum(one.seconds for one in lost)),
                *prices,
                _why(found),
            ]
        )
    yield rows


def _why(found: Iterable[WorkloadRow]) -> str:
    """Return the causes of what workloads lost, the most frequent first, each with its most frequent reason."""
    causes: Counter[str] = Counter()
    reasons: dict[str, Counter[str]] = defaultdict(Counter)
    for row in found:
        causes.update({cause: number for cause, number in row.figures.causes.items() if CAUSES[cause].loss})
        for attempt in row.attempts:
            if attempt.cause is not None:
                reasons[attempt.cause][attempt.reason] += 1
    told = []
    for cause, number in causes.most_common(MOST_REASONS):
        reason = reasons[cause].most_common(1)[0][0] if reasons[cause] else ""
        told.append(f"{cause} {number:,}" + (f" ({reason})" if reason else ""))
    return ", ".join(told)


def _listed(title: str, headings: Row, rows: list[Row]) -> Iterator[Part]:
    """Yield a table of the first rows under its title, and how many others there are; nothing without rows."""
    if rows:
        yield ""
        yield title
        yield [headings, *rows[:MOST_LISTED]]
    if len(rows) > MOST_LISTED:
        yield f"and {len(rows) - MOST_LISTED:,} more: -o json lists all"


def _suspects(report: Report) -> Iterator[Part]:
    """Yield the nodes and zones where more fails than chance explains."""
    headings = ["PLACE", "ZONE", "ON", "WORKLOADS", "FAILED", "EXPECTED", "HOURS LOST", *_price_heading(report)]
    title = "Where more workloads fail than chance explains, although they succeed elsewhere:"
    places = (("node", report.nodes), ("zone", report.zones))
    rows = [_place_cells(kind, place, report) for kind, some in places for place in some if place.suspect]
    yield from _listed(title, headings, rows)


def _broken(report: Report) -> Iterator[Part]:
    """Yield the nodes whose hardware has ended attempts, the most of them first."""
    found = sorted((node for node in report.nodes if node.faults), key=lambda node: (-node.faults, node.name))
    rows: list[Row] = [[node.name, node.zone or "-", f"{node.faults:,}"] for node in found]
    yield from _listed("Nodes whose hardware has ended attempts:", ["NODE", "ZONE", "FAULTS"], rows)


def _place_cells(kind: str, place: PlaceRow, report: Report) -> Row:
    on = {"Spot": "spot", "OnDemand": "on-demand", "": "-"}[place.capacity]
    numbers = (f"{place.workloads:,}", f"{place.failing:,}", f"{place.expected:.1f}", _hours(place.lost.seconds))
    price = [money(place.lost.price or 0)] if report.total.used.price is not None else []
    return [f"{kind} {place.name}", place.zone or "-", on, *numbers, *price]


def _near_limits(report: Report) -> Iterator[Part]:
    uids = set(report.near_limit)
    rows: list[Row] = []
    for row in report.workloads:
        if row.uid in uids:
            left = ("-" if one is None else str(one) for one in (row.retries_left, row.disruptions_left))
            rows.append([f"{row.namespace}/{row.kind}/{row.name}", *left])
    headings = ["WORKLOAD", "RETRIES LEFT", "DISRUPTIONS LEFT"]
    yield from _listed("Running, with no retry or no disruption left:", headings, rows)


def _price_heading(report: Report) -> list[str]:
    return [f"{report.currency or 'PRICE'} LOST"] if report.total.used.price is not None else []


def _amount(usage: Usage, report: Report) -> str:
    """Return money, or without prices core-hours and what else was used but memory."""
    if usage.price is not None:
        return f"{money(usage.price)} {report.currency}".strip()
    told = [f"{_hours(usage.resources.get('cpu', 0))} core-hours"]
    return ", ".join([*told, *(f"{_hours(used)} {name}-hours" for name, used in _others(usage))])


def money(amount: float) -> str:
    """Return an amount of money: with two decimals, or two digits where these would be 0.00."""
    if not amount or abs(amount) >= CENT:
        return f"{amount:,.2f}"
    return f"{amount:.{1 - floor(log10(abs(amount)))}f}"


def _hours(seconds: float) -> str:
    found = seconds / HOUR
    return f"{found:,.0f}" if found >= PERCENT else f"{found:,.1f}" if found >= 1 or not found else f"{found:.3f}"
