"""Read the server's metrics as Prometheus would."""

from webhook.metrics import REGISTRY


def counted(name: str, **labels: str) -> float:
    """Return the value of a series of this process; 0 if nothing has been counted yet."""
    return sample(name, labels) or 0.0


def sample(name: str, labels: dict[str, str] | None = None) -> float | None:
    """Return the value of a series of this process; None if there is none.

    Of its metric alone: another one may be a function of an object of a test that has ended.
    """
    families = REGISTRY.restricted_registry([name]).collect()
    found = (one for family in families for one in family.samples)
    return next((one.value for one in found if (one.name, one.labels) == (name, labels or {})), None)
