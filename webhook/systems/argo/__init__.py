"""Argo Workflows."""

PARTS = ("spec", "pods", "account", "rerun")
