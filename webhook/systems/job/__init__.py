"""Jobs of Kubernetes itself."""

PARTS = ("spec", "pods", "account", "rerun")
