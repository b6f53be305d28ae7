"""Reports: what attempts cost, what was lost and saved, by workload, namespace, profile, node and zone."""
