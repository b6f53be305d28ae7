"""Jobs of Kubernetes itself."""
