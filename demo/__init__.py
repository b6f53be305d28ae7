"""A demonstration without a cluster: `make demo`."""
