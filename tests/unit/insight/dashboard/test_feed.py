"""When the report is read, and what the pages are told."""

import asyncio
import gzip
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from tests import reports, virtual_time
from webhook.insight.dashboard import EVERY, LONGEST_PAUSE, PAUSE, Feed, NothingReadableError, Shown
from webhook.insight.report.model import Report
from webhook.kube.client import ApiError

REPORT = reports.report(5)


class Reader:
    """Returns one report after the other, or raises; remembers when it was asked. `takes`: seconds of each reading."""

    def __init__(self, *answers: Report | Exception, takes: float = 0.0) -> None:
        self.answers = list(answers)
        self.takes = takes
        self.asked: list[float] = []

    async def __call__(self) -> Report:
        self.asked.append(virtual_time.now())
        await asyncio.sleep(self.takes)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


async def for_seconds(feed: Feed, seconds: float, *, watched: bool = True) -> None:
    """Let the feed run for some seconds of virtual time."""
    running = asyncio.create_task(feed.run())
    if watched:
        with feed.watching():
            await asyncio.sleep(seconds)
    else:
        await asyncio.sleep(seconds)
    running.cancel()


@pytest.fixture(autouse=True)
def in_this_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Virtual time does not wait for other threads."""

    async def call(function: Callable[..., object], *arguments: object) -> object:
        return function(*arguments)

    monkeypatch.setattr("asyncio.to_thread", call)


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await work()

    virtual_time.run(main())


def test_nothing_is_read_while_nobody_looks() -> None:
    reader = Reader(REPORT)

    async def work() -> None:
        await for_seconds(Feed(reader), 3000, watched=False)
        assert reader.asked == []

    run(work)


def test_after_the_last_page_is_closed_nothing_is_read() -> None:
    reader = Reader(REPORT)

    async def work() -> None:
        feed = Feed(reader)
        running = asyncio.create_task(feed.run())
        with feed.watching():
            with feed.watching():
                await asyncio.sleep(1.5 * EVERY)
            await asyncio.sleep(EVERY)
        await asyncio.sleep(3000)
        running.cancel()
        assert reader.asked == [0, EVERY, 2 * EVERY]

    run(work)


def test_while_somebody_looks_the_report_is_read_every_few_seconds() -> None:
    reader = Reader(REPORT)

    async def work() -> None:
        await for_seconds(Feed(reader), 4.5 * EVERY)
        assert reader.asked == [number * EVERY for number in range(5)]

    run(work)


@pytest.mark.parametrize(("takes", "pause"), [(10.0, 10.0 * PAUSE), (500.0, LONGEST_PAUSE)])
def test_a_reading_that_takes_long_is_followed_by_a_long_pause(takes: float, pause: float) -> None:
    reader = Reader(REPORT, takes=takes)

    async def work() -> None:
        await for_seconds(Feed(reader), takes + pause + 1)
        assert reader.asked == [0, takes + pause]

    run(work)


def test_a_report_that_says_the_same_is_no_news_for_the_page() -> None:
    later = msgspec.structs.replace(REPORT, written="2026-11-23T00:00:05Z")

    async def work() -> None:
        feed = Feed(Reader(REPORT, later))
        await feed.refresh()
        first, body = feed.shown, feed.body
        await feed.refresh()
        assert (first.of, feed.shown.of) == (1, 1)
        assert feed.shown.text == later.written
        assert feed.body is body is not None
        assert msgspec.json.decode(gzip.decompress(body), type=Report) == REPORT

    run(work)


def test_another_report_is_news() -> None:
    async def work() -> None:
        feed = Feed(Reader(REPORT, reports.report(6)))
        await feed.refresh()
        first = feed.body
        await feed.refresh()
        assert feed.shown.of == 2
        assert feed.body != first

    run(work)


def test_after_a_problem_the_last_report_stays_and_reading_goes_on() -> None:
    reader = Reader(REPORT, ApiError(500, "etcd is busy"), REPORT)

    async def work() -> None:
        feed = Feed(reader)
        told: list[Shown] = []

        async def listen() -> None:
            number = 0
            while True:
                told.append(await feed.after(number))
                number = told[-1].number

        listening = asyncio.create_task(listen())
        await for_seconds(feed, 2.5 * EVERY)
        listening.cancel()
        assert [one.event for one in told] == ["checked", "problem", "checked"]
        assert told[1].text == "The API server refused the request: 500 etcd is busy."
        assert feed.body is not None

    run(work)


def test_an_answer_that_nobody_expected_is_told_and_reading_goes_on() -> None:
    async def work() -> None:
        feed = Feed(Reader(REPORT, KeyError("cpu"), REPORT))
        await for_seconds(feed, 1.5 * EVERY)
        assert feed.shown.text.startswith("The report cannot be made: unexpected KeyError in test_feed.py:")
        await for_seconds(feed, 1.5 * EVERY)
        assert feed.shown.event == "checked"

    run(work)


@pytest.mark.parametrize(
    "error", [ApiError(403, "forbidden"), ApiError(401, "who?"), NothingReadableError("no rights")]
)
def test_a_report_that_the_user_may_no_longer_read_is_withdrawn(error: Exception) -> None:
    async def work() -> None:
        feed = Feed(Reader(REPORT, error))
        await for_seconds(feed, 1.5 * EVERY)
        assert feed.body is None
        assert feed.shown.event == "withdrawn"

    run(work)


def test_a_slow_page_gets_the_last_of_many_news() -> None:
    async def work() -> None:
        feed = Feed(Reader(*(reports.report(number) for number in range(1, 6))))
        for _ in range(5):
            await feed.refresh()
        shown = await feed.after(0)
        assert (shown.number, shown.of) == (5, 5)

    run(work)
