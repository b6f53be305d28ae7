"""Flyte."""

PARTS = ("spec", "pods", "account")
