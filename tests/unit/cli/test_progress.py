"""The line that shows the progress."""

import io

from tests.unit.cli.test_colours import Terminal
from webhook.cli.console import ERASE
from webhook.cli.terminal import Progress


class Clock:
    def __init__(self) -> None:
        self.now = 5.0

    def __call__(self) -> float:
        return self.now


def test_what_takes_less_than_a_second_shows_nothing() -> None:
    clock, terminal = Clock(), Terminal()
    progress = Progress(stream=terminal, clock=clock)
    for _ in range(9):
        clock.now += 0.1
        progress.show("a.yaml")
    progress.clear()
    assert terminal.getvalue() == ""


def test_after_a_second_it_shows_a_line_ten_times_a_second_at_most_and_erases_it() -> None:
    clock, terminal = Clock(), Terminal()
    progress = Progress(stream=terminal, clock=clock)
    clock.now += 1
    progress.show("1 object")
    progress.show("2 objects")
    clock.now += 0.11
    progress.show("3 objects")
    progress.clear()
    progress.clear()
    assert terminal.getvalue() == f"{ERASE}1 object{ERASE}3 objects{ERASE}"


def test_nothing_is_shown_where_no_terminal_is() -> None:
    clock, pipe = Clock(), io.StringIO()
    progress = Progress(stream=pipe, clock=clock)
    clock.now += 2
    progress.show("a.yaml")
    assert pipe.getvalue() == ""
    terminal = Terminal()
    progress = Progress(is_shown=False, stream=terminal, clock=clock)
    clock.now += 2
    progress.show("a.yaml")
    assert terminal.getvalue() == ""


def test_a_line_fits_the_terminal_and_has_no_control_sequence() -> None:
    clock, terminal = Clock(), Terminal()
    progress = Progress(stream=terminal, clock=clock)
    clock.now += 2
    progress.show("\x1b[2J\n" + "a" * 500)
    line = terminal.getvalue().removeprefix(ERASE)
    assert line.startswith(r"\x1b[2J\na")
    assert len(line) == 79
