"""Requested retries of each kind, as adapters: what refuses one, what names a run, what makes it run again. Pure."""
