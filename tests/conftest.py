"""What holds for all tests."""

from hypothesis import settings

# No test is about elapsed time: a machine that does something else beside it is no failure.
settings.register_profile("retry-policy-webhook", deadline=None)
settings.load_profile("retry-policy-webhook")
