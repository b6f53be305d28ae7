"""Read the server's metrics as Prometheus would."""

from webhook.metrics import REGISTRY


def counted(name: str, **labels: str) -> float:
    """Return the value of a series of this process; 0 if nothing has been counted yet."""
    return REGISTRY.get_sample_value(name, labels) or 0.0
