"""Systems whose workloads have an account: what the end of a pod costs there, and when a workload has ended."""
