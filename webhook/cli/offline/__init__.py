"""Manifests judged without a cluster: read documents, admit each object, print what came of it."""
