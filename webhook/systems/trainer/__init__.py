"""Kubeflow Trainer."""

PARTS = ("spec", "progress")
