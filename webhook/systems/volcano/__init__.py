"""Volcano."""
