"""`python -m tools.generate`."""

from tools import generate

generate.write()
