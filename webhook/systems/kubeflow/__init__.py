"""Kubeflow's training operator and its MPI operator."""

PARTS = ("spec", "pods", "account")
