"""KubeRay."""

PARTS = ("spec", "pods", "account", "rerun")
