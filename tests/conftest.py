"""What holds for all tests."""

import gc

import pytest
from hypothesis import settings

# No test is about elapsed time: a machine that does something else beside it is no failure.
# The generated objects are always the same ones, so that a change is judged by what it changes; `make test-long`
# draws others each time.
settings.register_profile("same", deadline=None, derandomize=True)
settings.register_profile("other", deadline=None)
settings.load_profile("same")


@pytest.fixture(scope="module", autouse=True)
def _frozen() -> None:
    """Have the garbage collector pass over what is there before a module's tests.

    A server has not got thousands of collected tests; and each measurement (costs.py) would go through them anew.
    """
    gc.collect()
    gc.freeze()
