"""Records are written in batches, again after a fault, and a fault delays nothing else."""

import asyncio

from structlog.testing import capture_logs

from tests.metrics import counted
from tests.unit.controller.leader import beside
from tests.virtual_time import now, run
from webhook.history.sinks import LogSink
from webhook.history.writer import MOST, RefusedRecordsError, Writer


class Sink:
    """Takes what is written, and when; raises `faults` first."""

    most = 3

    def __init__(self, *faults: Exception) -> None:
        self.faults = list(faults)
        self.batches: list[list[bytes]] = []
        self.at: list[float] = []

    async def write(self, lines: list[bytes]) -> None:
        self.at.append(now())
        if self.faults:
            raise self.faults.pop(0)
        self.batches.append(lines)


def written(sink: Sink, *lines: bytes, seconds: float = 30) -> Writer:
    async def work() -> Writer:
        writer = Writer(sink)
        async with beside(writer.run()):
            await asyncio.sleep(0)
            for line in lines:
                writer.put("ml", line)
            await asyncio.sleep(seconds)
        return writer

    return run(work())


def test_lines_are_written_in_batches_of_what_the_sink_takes() -> None:
    before = counted("retry_policy_history_records_total", result="written")
    sink = Sink()
    written(sink, b"1", b"2", b"3", b"4")
    assert sink.batches == [[b"1", b"2", b"3"], [b"4"]]
    assert sink.at[1] - sink.at[0] >= 1
    assert counted("retry_policy_history_records_total", result="written") == before + 4


def test_a_batch_is_written_again_after_faults_and_the_log_says_so_once() -> None:
    sink = Sink(OSError("full"), TimeoutError(), ValueError("a bug"))
    with capture_logs() as said:
        written(sink, b"1")
    assert sink.batches == [[b"1"]]
    assert [later - earlier for earlier, later in zip(sink.at, sink.at[1:], strict=False)] == [1, 2, 4]
    assert [line["event"] for line in said] == ["history not written", "history written again"]


def test_what_a_collector_refuses_is_dropped_and_counted() -> None:
    before = counted("retry_policy_history_records_total", result="dropped")
    sink = Sink(RefusedRecordsError("413"))
    with capture_logs() as said:
        written(sink, b"1", b"2", b"3", b"4")
    assert sink.batches == [[b"4"]]
    assert [line["event"] for line in said] == ["history refused"]
    assert counted("retry_policy_history_records_total", result="dropped") == before + 3


def test_a_sink_that_never_works_keeps_a_bounded_number_of_lines() -> None:
    before = counted("retry_policy_history_records_total", result="dropped")
    writer = written(Sink(*[OSError("full")] * 1000), *[b"x"] * (MOST + 10))
    assert writer.waiting.number == MOST - Sink.most or writer.waiting.number == MOST
    assert counted("retry_policy_history_records_total", result="dropped") == before + 10


def test_a_record_in_the_log_has_its_fields_beside_the_event() -> None:
    with capture_logs() as said:
        asyncio.run(LogSink().write([b'{"type":"Attempt","uid":"a"}']))
    assert said == [{"event": "history", "log_level": "info", "type": "Attempt", "uid": "a"}]
