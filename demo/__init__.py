"""The product at work, without a cluster: `make demo`."""
