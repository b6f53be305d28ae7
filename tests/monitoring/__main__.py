"""Draws the pictures in docs/how-to/watch.md from a new run: `python -m tests.monitoring`; takes two minutes."""

import sys

from tests.monitoring import pictures, results
from tests.monitoring.scenario import running
from tools.generate import ROOT

with running() as scenario:
    shown = results.ask(scenario.prometheus, *scenario.run())
for file in pictures.draw(shown, ROOT / "docs" / "how-to"):
    sys.stdout.write(f"{file}\n")
