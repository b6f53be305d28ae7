"""`python -m tests.generated`."""

from tests import generated

generated.write()
