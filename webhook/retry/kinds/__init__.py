"""Requested retries of each kind: what refuses one, what names a run, what makes it run again. Pure."""
