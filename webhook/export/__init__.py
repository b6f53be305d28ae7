"""Writes what of a policy the API server can hold by itself, as admission policies in CEL. Pure."""
