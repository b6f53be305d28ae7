"""The systems that run workloads: a folder for each, and beside them what they have in common."""
