"""Kubeflow Trainer."""

PARTS = ("spec",)
