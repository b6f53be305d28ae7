"""Amounts of resources as the API writes them: its resource.Quantity."""

import re
from fractions import Fraction
from typing import Final

LONGEST: Final = 40  # characters; a longer text is no amount that anybody writes
LARGEST: Final = 2**63 - 1  # bytes
QUANTITY: Final = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?")
# The amounts that people may write to us: a whole number with a unit, as `Quantity` in webhook/policy/model.py.
PLAIN: Final = re.compile("[1-9][0-9]{0,11}(Ki|Mi|Gi|Ti|Pi|k|M|G|T|P)?")
BINARY: Final = "KMGTPE"
DECIMAL: Final = "kMGTPE"
SMALL: Final = {"m": 10**3, "u": 10**6, "n": 10**9}


def plain_memory(text: str | None) -> int | None:
    """Return the bytes of an amount that is a whole number with or without a unit; None if the text is no such one."""
    return None if text is None or PLAIN.fullmatch(text) is None else memory(text)


def memory(text: str | None) -> int | None:
    """Return the bytes of an amount of memory, rounded up; None if the text is none, or not one of 1 byte to 2^63-1."""
    number = None if text is None else amount(text)
    if number is None:
        return None
    size = -(-number.numerator // number.denominator)
    return size if 1 <= size <= LARGEST else None


def amount(text: str) -> Fraction | None:
    """Return an amount of any resource, in its own unit, such as 1/10 for 100m; None if the text is none."""
    found = QUANTITY.fullmatch(text) if len(text) <= LONGEST else None
    if found is None:
        return None
    number, unit = Fraction(found[1]), found[2] or ""
    if unit.endswith("i"):
        number *= 1024 ** (BINARY.index(unit[0]) + 1)
    elif unit in SMALL:
        number /= SMALL[unit]
    elif unit and unit in DECIMAL:
        number *= 1000 ** (DECIMAL.index(unit) + 1)
    elif unit:
        number *= Fraction(10) ** int(unit[1:])
    return number


def written(size: int) -> str:
    """Return an amount of memory in the largest binary unit in which it is a whole number, such as 3Gi."""
    for power in range(len(BINARY), 0, -1):
        if size % 1024**power == 0:
            return f"{size // 1024**power}{BINARY[power - 1]}i"
    return str(size)
