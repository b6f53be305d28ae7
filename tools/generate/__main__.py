"""`python -m tools.generate`."""

import gc

from tools import generate

gc.disable()  # it would examine the syntax trees of all modules again and again
generate.write()
