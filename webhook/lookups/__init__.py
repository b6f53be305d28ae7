"""Caches over the API: what admission and the controllers need to know of the cluster, and the policy in force."""
