"""Kubernetes as every other package needs it: keys, terminal conditions, client, informer, Lease, Events."""
