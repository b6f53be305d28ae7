"""Figures, not tests: `python -m tests.cluster -- python -m tests.bench.NAME` prints them."""
