"""One retry policy for every batch workload in a Kubernetes cluster."""

__version__ = "0.2.0"
