"""Kubeflow's training operator and its MPI operator."""
