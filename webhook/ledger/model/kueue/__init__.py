"""Kueue: what the ledger reads of a Workload, and how it counts evictions. Pure."""
