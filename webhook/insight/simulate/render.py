"""Prints a simulation, or a sweep, as lines and tables."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from webhook.insight.report.render import money
from webhook.insight.simulate.prediction import Figure
from webhook.insight.simulate.result import Group, Simulation
from webhook.insight.simulate.sweep import Curve, Point, as_good, better_with_fewer, measured
from webhook.objects.columns import Part, Row

HEADINGS: Final[Row] = ("NAMESPACE", "FIGURE", "SEEN", "NOW", "THEN", "80% OF THEN", "CHANGE")
CURVE: Final[Row] = ("VALUE", "ATTEMPTS", "COMPLETE", "LATE", "MONEY", "EACH", "TIME", "")
LATE: Final = CURVE.index("LATE")
SHOWN: Final = 10  # workloads that fare worse
BAR: Final = 24  # characters of the longest bar
ALL: Final = "all"
MINUTE, HOUR = 60, 3600

Text = Callable[[float], str]


def parts(simulation: Simulation) -> Iterator[Part]:
    """Yield what a simulation says."""
    total = simulation.total
    yield (
        f"{simulation.workloads:,} workloads from {simulation.since} to {simulation.until}, "
        f"each replayed {simulation.replications:,} times under either policy"
    )
    yield _checked(total, simulation.currency)
    yield ""
    groups = [total, *simulation.namespaces] if len(simulation.namespaces) > 1 else [total]
    yield [HEADINGS, *(row for group in groups for row in _rows(group, simulation.currency))]
    yield ""
    if simulation.worse:
        yield f"{simulation.worse_in_all:,} workloads would fare worse:"
        yield [
            ("WORKLOAD", "FAILS", "SLOWER", "WHY"),
            *(
                (f"{one.namespace}/{one.workload}", f"{one.fails:.0%}", f"{one.slower:.1f} x", one.why)
                for one in simulation.worse[:SHOWN]
            ),
        ]
        if simulation.worse_in_all > SHOWN:
            yield f"and {simulation.worse_in_all - SHOWN:,} more: -o json lists {len(simulation.worse)}"
    else:
        yield "no workload would fare worse"
    yield ""
    yield from _assumed(simulation.assumptions)


def _checked(total: Group, currency: str) -> str:
    """Return how well the replay of the policy in force gives what was seen."""
    seen, now = total.seen, total.now
    found = [
        f"{now.attempts.mean:,.0f} attempts (seen: {seen.attempts:,})",
        f"{_hours(now.node_seconds.mean)} node-hours ({_hours(seen.node_seconds)})",
    ]
    if now.money is not None and seen.money is not None:
        found.append(f"{money(now.money.mean)} {currency} ({money(seen.money)})")
    return f"replaying the policy that was in force gives {', '.join(found)}: so much can be trusted"


def _assumed(assumptions: Iterable[str]) -> Iterator[str]:
    yield "this assumes:"
    for one in assumptions:
        yield f"- {one}"


def _rows(group: Group, currency: str) -> Iterator[Row]:
    """Yield a row for each figure of a group that is known."""
    for what, field, text in FIGURES:
        seen, now, then = (getattr(one, field) for one in (group.seen, group.now, group.then))
        if seen is not None and now is not None and then is not None:
            around, changed = f"{text(then.low)} to {text(then.high)}", _change(seen, then.mean)
            means = text(seen), text(now.mean), text(then.mean)
            yield group.name or ALL, what.format(currency=currency), *means, around, changed


def _change(seen: float, then: float) -> str:
    if not seen:
        return "" if not then else "new"
    share = then / seen - 1
    return "" if abs(share) < 0.0005 else f"{share:+.1%}"  # noqa: PLR2004 - what would be printed as 0.0%


def curve(drawn: Curve) -> Iterator[Part]:
    """Yield what a sweep says."""
    yield (
        f"{drawn.workloads:,} workloads from {drawn.since} to {drawn.until}, "
        f"each replayed {drawn.replications:,} times under every value of {drawn.field}"
    )
    yield ""
    most = max((measured(one, drawn.measure) for one in drawn.points), default=0.0)
    what = f"{drawn.currency} EACH" if drawn.measure == "money" else "TIME"
    table = [(*CURVE[:-1], what), *(_point(one, drawn, most) for one in drawn.points)]
    has_late = any(one.outlook is not None and one.outlook.late is not None for one in drawn.points)
    yield table if has_late else [tuple(cell for place, cell in enumerate(one) if place != LATE) for one in table]
    yield ""
    for one in drawn.points:
        for problem in one.problems[:1]:
            yield f"{drawn.field}={_said(one.value)} is no policy: {problem}"
    if drawn.best is not None:
        others = as_good(drawn.points, drawn.measure, drawn.best)
        if others and len(others) == sum(one.outlook is not None for one in drawn.points) - 1:
            yield f"{drawn.field} makes no difference here: all values are as good, within one in a hundred"
        else:
            yield _best(drawn, drawn.points[drawn.best])
            if others:
                yield f"as good, within one in a hundred: {', '.join(map(_said, others))}"
        fewer = better_with_fewer(drawn.points, drawn.measure, drawn.best)
        if fewer:
            worse = "fewer that are complete, or more late" if has_late else "fewer that are complete"
            yield f"better by that, but with {worse}: {', '.join(map(_said, fewer))}"
        yield ""
    yield from _assumed(drawn.assumptions)


def _best(drawn: Curve, one: Point) -> str:
    if drawn.measure == "money":
        what = f"money per complete workload ({money(one.money_per_complete or 0.0)} {drawn.currency})"
    else:
        what = f"time to finish ({lasting(measured(one, drawn.measure))})"
    late = "" if one.outlook is None or one.outlook.late is None else " and as few late"
    return f"best by {what}, of the values with which as many are complete{late}: {drawn.field}={_said(one.value)}"


def _point(one: Point, drawn: Curve, most: float) -> Row:
    outlook = one.outlook
    if outlook is None:
        return (_said(one.value), *[""] * (len(CURVE) - 1))
    each = "" if one.money_per_complete is None else money(one.money_per_complete)
    return (
        f"{_said(one.value)}{' *' if drawn.best is not None and one is drawn.points[drawn.best] else ''}",
        _whole(outlook.attempts.mean),
        _counted(outlook.complete),  # one in a hundred decides about the best value
        "" if outlook.late is None else _counted(outlook.late),
        "" if outlook.money is None else money(outlook.money.mean),
        each,
        lasting(outlook.mean_time_to_finish.mean),
        "#" * max(1, round(BAR * measured(one, drawn.measure) / most)) if most else "",
    )


def _counted(number: Figure) -> str:
    return f"{number.mean:,.1f}".removesuffix(".0")


def _said(value: object) -> str:
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _whole(number: float) -> str:
    return f"{number:,.0f}"


def _hours(seconds: float) -> str:
    return f"{seconds / HOUR:,.1f}"


def lasting(seconds: float) -> str:
    """Return how long something takes."""
    if seconds < MINUTE:
        return f"{seconds:.0f}s"
    if seconds < HOUR:
        return f"{int(seconds // MINUTE)}m{int(seconds % MINUTE):02d}s"
    return f"{int(seconds // HOUR)}h{int(seconds % HOUR // MINUTE):02d}m"


# What a row is called, its field in `Seen` and `Outlook`, and how its numbers are written.
FIGURES: Final[tuple[tuple[str, str, Text], ...]] = (
    ("attempts", "attempts", _whole),
    ("complete", "complete", _whole),
    ("failed", "failed", _whole),
    ("node-hours", "node_seconds", _hours),
    ("on spot", "spot_seconds", _hours),
    ("money, {currency}", "money", money),
    ("late", "late", _whole),
    ("mean time", "mean_time_to_finish", lasting),
)
