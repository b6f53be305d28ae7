"""The checks of `retry-policy doctor`: each judges a part of a Snapshot, and returns findings. Pure."""
