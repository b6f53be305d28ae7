"""Accounts as objects of their own, and the workloads that have no object at all."""
