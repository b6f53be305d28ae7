"""Requested retries: a workload that failed runs again because a person asks for it.

`kinds` has a pure file for each kind, `record` notes who asked, `requests` is how one asks by an annotation, `consent`
whether the workload may run twice; `admission` judges who may ask, `executor` runs the steps in the cluster, and
`controller` does so for annotations.
"""
