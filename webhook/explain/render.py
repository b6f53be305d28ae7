"""Prints an explanation: as a table, or as JSON for programs."""

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from math import ceil
from typing import Final

import msgspec

from webhook.accounts.words import counted
from webhook.explain.build import Explanation
from webhook.explain.build_cron_job import CronJobExplanation
from webhook.explain.pending import Delayed
from webhook.explain.rows import Row
from webhook.objects.columns import Part
from webhook.objects.times import time_of
from webhook.systems.accounts import SYSTEMS
from webhook.systems.job_set.spec import JOB_SET

BUDGETS: Final = {JOB_SET.kind: "restart"}  # else retry
LATEST: Final = 30  # seconds that the leader may take for a verdict, or to end a delay, after it was due
MOST_DELAYS: Final = 5  # delayed pods that are shown
SHORT: Final = 2  # minutes under which a duration is shown in seconds
LONG: Final = 120  # minutes from which it is shown in hours
UNITS: Final = {one.kind.kind: one.unit.upper() for one in reversed(SYSTEMS.values())}


def as_json(explanation: Explanation | CronJobExplanation) -> str:
    """Return the fields of an explanation as JSON."""
    return msgspec.json.format(msgspec.json.encode(explanation), indent=2).decode()


def parts(explanation: Explanation, now: datetime | None = None) -> Iterator[Part]:
    """Yield the table, and the lines before and after it; `now`: the time from which seconds count."""
    now = datetime.now(UTC) if now is None else now
    yield f"{explanation.kind} {explanation.namespace}/{explanation.name}: {_state(explanation, now)}"
    for delay in explanation.delays[:MOST_DELAYS]:
        yield _told(delay, now)
    if len(explanation.delays) > MOST_DELAYS:
        yield f"(and {counted(len(explanation.delays) - MOST_DELAYS, 'other pod')}, delayed until later)"
    for verdict in explanation.verdicts:
        left = _seconds_until(verdict.until, now)
        if left > -LATEST:
            yield f"verdict pending until {verdict.until} ({max(0, left)} s): {verdict.text}"
    yield explanation.summary
    yield from explanation.budgets
    for one in explanation.requested:
        yield f"retry requested by {one.by} at {one.at}" + (f", after {'; '.join(one.ended)}" if one.ended else "")
    if explanation.earlier:
        yield f"({explanation.earlier} earlier ones are counted and not kept in detail)"
    yield from _attempts_of(explanation)
    yield from _by_pod("By the rules of onFailure:", ((row.pod, row.after) for row in explanation.rows))
    yield from _by_pod("Last words:", ((row.pod, row.last_words) for row in explanation.rows))
    if explanation.next:
        yield ""
        yield "At the next failure:"
        for step in explanation.next:
            yield f"  {step}"
        for why in filter(None, (explanation.placement, explanation.actions)):
            yield f"  {why}"


def _attempts_of(explanation: Explanation) -> Iterator[Part]:
    if explanation.rows:
        shown, budget = [*COLUMNS.items()], BUDGETS.get(explanation.kind, "retry")
        if any(row.unit for row in explanation.rows):
            shown.insert(1, (UNITS[explanation.kind], lambda row, _: row.unit))
        yield ""
        yield [
            [heading for heading, _ in shown],
            *([cell(row, budget) or "-" for _, cell in shown] for row in explanation.rows),
        ]
    if explanation.others:
        by_state = ", ".join(f"{number} {state}" for state, number in explanation.others.items())
        yield f"(and {counted(sum(explanation.others.values()), 'other pod')}: {by_state})"


def _by_pod(heading: str, texts: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield a heading and the texts that are not empty, each with the name of its pod; nothing if all are empty."""
    found = [f"  {pod}: {text}" for pod, text in texts if text]
    if found:
        yield from ("", heading, *found)


def _told(delay: Delayed, now: datetime) -> str:
    left = _seconds_until(delay.until, now)
    rule = "a rule" if delay.rule is None else f"rule {delay.rule}"
    why = f"by {rule} of onFailure" + (f" after {delay.cause}" if delay.cause else "")
    if left > -LATEST:
        until = f"until {delay.until} ({max(0, left)} s) " if delay.until else ""
        return f"pod {delay.pod} is delayed {until}{why}"
    return f"pod {delay.pod} was to be delayed until {delay.until} {why}, and still is: see `retry-policy doctor`"


def _state(explanation: Explanation, now: datetime) -> str:
    """Return the state of a workload; if it waits for the Job controller's back-off, for how many seconds."""
    if not explanation.waits_until:
        return explanation.state
    left = _seconds_until(explanation.waits_until, now)
    return f"waiting {left} s (Job controller's back-off)" if left > 0 else "waiting for the Job controller"


def _seconds_until(time: str, now: datetime) -> int:
    """Return the seconds from `now` until a time of the API; 0 if the text is no time."""
    until = time_of(time)
    return 0 if until is None else ceil((until - now).total_seconds())


def duration(start: str, end: str) -> str:
    """Return how long an attempt took, such as `8s`, `10m21s` or `2h5m`; `-` if that is unknown."""
    begun, ended = time_of(start), time_of(end)
    if begun is None or ended is None:
        return "-"
    seconds = (ended - begun).total_seconds()
    minutes, rest = divmod(round(seconds), 60)
    if minutes < SHORT:
        return f"{seconds:.0f}s"
    return f"{minutes // 60}h{minutes % 60}m" if minutes >= LONG else f"{minutes}m{rest}s"


def _rule(row: Row, _: str) -> str:
    return ", ".join(filter(None, (row.rule, "" if row.on_failure is None else f"onFailure {row.on_failure}")))


def _left(row: Row, budget: str) -> str:
    lefts = ((row.retries_left, budget), (row.disruptions_left, "disruption"))
    return ", ".join(counted(number, name) for number, name in lefts if number is not None)


# By the headings of the table of attempts, the text of a row, empty if there is none, given the noun for what a failure
# costs: retry or restart.
COLUMNS: Final[dict[str, Callable[[Row, str], str]]] = {
    "ATTEMPT": lambda row, _: str(row.attempt),
    "POD": lambda row, _: row.pod,
    "NODE": lambda row, _: row.node,
    "ON": lambda row, _: row.placement,
    "START": lambda row, _: row.start,
    "DURATION": lambda row, _: duration(row.start, row.end),
    "ENDED": lambda row, _: row.ended,
    "RULE": _rule,
    "COST": lambda row, _: row.cost,
    "LEFT": _left,
}
