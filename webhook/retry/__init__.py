"""Requested retries: a workload that failed runs again because a person asks for it.

`kinds` has a pure adapter for each kind, listed in its `registry`; `record` says who asked, `requests` how one asks by
an annotation, `consent` whether a workload may run twice. `admission` judges who may ask, `reading` reads what that is
decided by, `executor` runs the steps in the cluster, and `controller` does so for annotations.
"""
