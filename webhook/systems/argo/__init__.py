"""Argo Workflows."""
