"""Tekton Pipelines and Triggers."""

PARTS = ("spec", "pods", "account", "rerun")
