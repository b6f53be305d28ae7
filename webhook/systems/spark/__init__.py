"""Spark: Kubeflow's operator and Apache's."""
