"""Leaves out the one object that makes a command raise, so that the command goes on with all others.

An object is data of somebody. Whatever it contains, a command names it, says what happened, and answers about the rest:
what `Bulkhead` is for the programs that watch objects. The command ends with exit code 2 then.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

LONGEST: Final = 500  # characters of an error


class UnfitError(Exception):
    """An object cannot be used; the message says why, and what to do."""


class LeftOut:
    """The objects that were left out: `number` counts them; `tell` gets one line about each."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self.tell = tell
        self.number = 0

    @contextmanager
    def around(self, kind: str, found: object, passing: tuple[type[Exception], ...] = ()) -> Iterator[None]:
        """Do what the block does with one object, and leave the object out if that raises.

        `found`: the object as the API has it, something with its `namespace` and `name`, or a function that returns
        one of both. `passing`: errors that are not about the object, as that of an output that nobody reads never is.
        """
        try:
            yield
        except Exception as error:
            if isinstance(error, (BrokenPipeError, *passing)):
                raise
            self.number += 1
            why = str(error) if isinstance(error, UnfitError) else unexpected(error)
            self.tell(f"{name_of(kind, found)} is left out: {why}")


class Raising(LeftOut):
    """Leaves nothing out: for those who want to know what an object raises."""

    def __init__(self) -> None:
        super().__init__(lambda _: None)

    @contextmanager
    def around(self, kind: str, found: object, passing: tuple[type[Exception], ...] = ()) -> Iterator[None]:  # noqa: ARG002
        """Do what the block does."""
        yield


RAISING: Final = Raising()


def name_of(kind: str, found: object) -> str:
    """Return kind, namespace and name of an object, whatever is in the place of these."""
    found = found() if callable(found) else found
    metadata = found.get("metadata") if isinstance(found, dict) else None
    known = metadata if isinstance(metadata, dict) else {}
    parts = (known.get(key) or getattr(found, key, "") for key in ("namespace", "name"))
    return f"{kind} {'/'.join(part for part in parts if isinstance(part, str) and part) or 'without a name'}"


def unexpected(error: Exception) -> str:
    """Return what an error of ours was, with its place in the code, and what to do."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    name, text, place = type(error).__name__, str(error)[:LONGEST], ""
    if trace is not None:
        file, line = trace.tb_frame.f_code.co_filename.rpartition("/")[2], trace.tb_lineno
        place = f" in {file}:{line}"
    return f"unexpected {name}{place}: {text}; please report this with the command"
