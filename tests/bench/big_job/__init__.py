"""One big Job: 100,000 completion indexes, 5,000 pods at a time."""
