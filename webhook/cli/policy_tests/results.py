"""What `retry-policy test` prints: text for people, and the forms that programs read."""

from collections.abc import Iterator
from typing import Literal

import click
import msgspec

from webhook.cli.console import printable
from webhook.cli.output import github, json_form, junit
from webhook.cli.policy_tests.judge import Difference


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One case: its file and line, and how it differs from what is expected; `differences` is empty if it passed."""

    file: str
    line: int | None
    name: str
    differences: list[Difference]

    @property
    def lines(self) -> Iterator[str]:
        """The differences as lines."""
        for one in self.differences:
            yield f"{printable(one.where)}:"
            yield from (f"  {line}" for line in one.lines)


class CasesSummary(msgspec.Struct, frozen=True, kw_only=True):
    """How many cases there are, and how many passed and failed."""

    cases: int
    passed: int
    failed: int


class CasesReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The JSON form."""

    api_version: Literal["retry-policy.dev/v1alpha1"] = "retry-policy.dev/v1alpha1"
    kind: Literal["TestReport"] = "TestReport"
    summary: CasesSummary
    cases: list[Result]


def summary_of(results: list[Result]) -> CasesSummary:
    """Return the numbers."""
    failed = sum(1 for result in results if result.differences)
    return CasesSummary(cases=len(results), passed=len(results) - failed, failed=failed)


def text(results: list[Result]) -> Iterator[str]:
    """Yield the lines for people: the cases, each failed one with its differences, and a summary."""
    for result in results:
        passed = not result.differences
        place = "" if passed else f"  ({result.file}:{result.line or 1})"
        state = click.style("PASS", fg="green") if passed else click.style("FAIL", fg="red", bold=True)
        yield f"{state}  {result.name}{place}"
        for difference in result.differences:
            yield f"      {printable(difference.where)}:"
            yield from (f"        {coloured(line)}" for line in difference.lines)
    summary = summary_of(results)
    cases = "1 case" if summary.cases == 1 else f"{summary.cases:,} cases"
    legend = "; - is expected, + is what admission does" if summary.failed else ""
    yield ""
    yield f"{cases}: {summary.passed:,} passed, {summary.failed:,} failed{legend}"


def coloured(line: str) -> str:
    """Return a line of a difference in the colour of its sign."""
    colour = {"-": "red", "+": "green"}.get(line[:1])
    return line if colour is None else click.style(line, fg=colour)


def as_json(results: list[Result]) -> str:
    """Return the results as JSON."""
    return json_form.encoded(CasesReport(summary=summary_of(results), cases=results))


def as_junit(results: list[Result]) -> str:
    """Return the results as JUnit XML."""
    cases = (
        junit.Case(one.file, one.name, ["\n".join(one.lines)] if one.differences else [], [], []) for one in results
    )
    return junit.document("retry-policy test", cases)


def as_github(results: list[Result]) -> str:
    """Return the cases that failed as annotations of GitHub Actions."""
    return "".join(
        github.annotation("error", "\n".join(one.lines), file=one.file, line=one.line, title=f"failed: {one.name}")
        for one in results
        if one.differences
    )
