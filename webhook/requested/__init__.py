"""Requested retries: what has failed runs again because a person asks for it. Pure: no clock, no I/O.

`record` notes on it who asked, `asked` is how one asks by an annotation, `consent` reads whether it may run twice, and
a file for each kind says whether it can be asked for, and what makes it run again.
"""
