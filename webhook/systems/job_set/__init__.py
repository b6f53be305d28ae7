"""JobSets."""

PARTS = ("spec", "pods", "rerun")
