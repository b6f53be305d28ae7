"""JobSets."""

PARTS = ("spec", "pods", "account", "rerun")
