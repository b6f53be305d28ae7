"""Volcano."""

PARTS = ("spec", "pods", "account", "rerun")
