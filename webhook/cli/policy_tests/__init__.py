"""Tests of a policy: manifests, each with what admission is expected to do with it."""
