"""KubeRay."""
