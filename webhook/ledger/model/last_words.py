"""Takes the last words of an ended pod: the end of the termination message of the container that decided how it ended.

They come from a program, and are shown on terminals: they become one line of printable characters.
"""

from typing import Final

from webhook.ledger.model.outcomes import Outcome

LONGEST: Final = 200  # bytes
MOST: Final = 3  # attempts of an account whose last words are kept
CUT: Final = "…"  # stands before the rest of a longer message


def of(outcome: Outcome) -> str:
    """Return the last words of an ended pod, at most LONGEST bytes; empty if no container that failed left any."""
    deciding = outcome.reason.partition(" ")[0]  # as `outcomes.cause_of` writes it
    found = sorted((one for one in outcome.pod.exits if one.message), key=lambda one: one.container != deciding)
    return in_one_line(found[0].message) if found else ""


def in_one_line(message: str) -> str:
    """Return the end of a message without line breaks, control characters and repeated blanks."""
    line = " ".join("".join(one if one.isprintable() else " " for one in message).split())
    encoded = line.encode()
    if len(encoded) <= LONGEST:
        return line
    return CUT + encoded[len(CUT.encode()) - LONGEST :].decode(errors="ignore")
