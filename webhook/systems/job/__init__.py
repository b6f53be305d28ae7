"""Jobs of Kubernetes itself."""

PARTS = ("spec", "pods", "rerun")
