"""Spark: Kubeflow's operator and Apache's."""

PARTS = ("spec", "pods", "account")
