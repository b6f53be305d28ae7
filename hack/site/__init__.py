"""Builds the documentation site, and takes pictures of it."""
