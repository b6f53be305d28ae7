"""Flyte."""
