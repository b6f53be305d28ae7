"""Tekton Pipelines and Triggers."""
