"""The Account of a workload, and the requested retries after which it begins anew."""
