"""Records that wait: bounded, and fair to namespaces."""

from tests.costs import assert_affordable
from webhook.history.writer import WaitingLines


def lines(waiting: WaitingLines) -> list[bytes]:
    return waiting.take(1000, 10**9)


def test_lines_come_in_their_order() -> None:
    waiting = WaitingLines()
    assert all(waiting.put("ml", line) for line in (b"1", b"2", b"3"))
    assert (lines(waiting), waiting.number) == ([b"1", b"2", b"3"], 0)


def test_the_oldest_of_the_noisiest_namespace_is_dropped() -> None:
    waiting = WaitingLines(4)
    assert waiting.put("quiet", b"q")
    assert [waiting.put("noisy", b"%d" % number) for number in range(5)] == [True, True, True, False, False]
    assert lines(waiting) == [b"q", b"2", b"3", b"4"]


def test_namespaces_take_turns() -> None:
    waiting = WaitingLines()
    for number in range(3):
        waiting.put("a", b"a%d" % number)
    waiting.put("b", b"b0")
    assert waiting.take(3, 10**9) == [b"a0", b"b0", b"a1"]


def test_a_batch_has_at_most_so_many_bytes_but_always_a_line() -> None:
    waiting = WaitingLines()
    for _ in range(3):
        waiting.put("a", b"x" * 100)
    assert len(waiting.take(10, 150)) == 2
    assert len(waiting.take(10, 1)) == 1


def test_ten_thousand_namespaces_cost_little() -> None:
    waiting = WaitingLines()
    for number in range(10_000):
        waiting.put(str(number), b"x")
    assert_affordable(lambda: waiting.put("another", b"x"), lines=15_000, mebibytes=2)
    assert_affordable(lambda: waiting.take(1000, 10**9), lines=38_000, mebibytes=2)
