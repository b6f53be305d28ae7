"""One stage for the whole run, which is reset for each test, and the table of faults at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.processes import last_lines
from tests.faults.stage import Stage, new_stage

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from tests.faults.watched import Watched

TABLE = pytest.StashKey[list["Watched"]]()
LOG_LINES = 30
LONGEST = 400  # characters of a message
LOGGED = ("certificate", "caBundle", "watch", "error", "drain")
COLUMNS = ("tries", "admissions", "failed", "wrong", "seconds")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "hardest: one of the seven faults that hit live admission hardest")


@pytest.fixture(scope="session")
def whole_run(pytestconfig: pytest.Config) -> Iterator[Stage]:
    with new_stage() as stage:
        pytestconfig.stash[TABLE] = stage.table
        yield stage


@pytest.fixture
def stage(whole_run: Stage) -> Stage:
    """A stage without replicas and certificates, with the shipped webhook configurations."""
    whole_run.reset()
    return whole_run


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add to the report of a failed test the log lines of its replicas, except denials."""
    report = yield
    stage = item.funcargs.get("stage") if isinstance(item, pytest.Function) else None
    if report.failed and isinstance(stage, Stage):
        for replica in stage.replicas:
            log = stage.processes.log(replica.name)
            report.sections.append((log.name, last_lines(log, LOG_LINES, LOGGED)))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the results of the admissions, and the reasons of lost ones."""
    if not (table := config.stash.get(TABLE, [])):
        return
    terminalreporter.section("faults")
    width = max(len(watched.fault) for watched in table)
    terminalreporter.line(f"{'fault':{width}} " + " ".join(f"{column:>10}" for column in COLUMNS))
    for watched in table:
        tally = watched.tally
        figures = (watched.tries, tally.admissions, tally.failed, tally.wrong)
        counts = " ".join(f"{figure:10}" for figure in figures)
        terminalreporter.line(f"{watched.fault:{width}} {counts} {watched.seconds:10.2f}")
        if watched.note:
            terminalreporter.line(f"    {watched.note}")
        for message in [message for message in tally.messages if not message.startswith("api")][:2]:
            terminalreporter.line(f"    {message[:LONGEST]}")
