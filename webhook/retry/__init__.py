"""Requested retries: a failed workload runs again because a person requests it.

`kinds`: a pure adapter for each kind, listed in `registry`. `record`: the user and time of each retry. `requests`:
requests by an annotation, and whether a workload may run twice. `admission`: which users may request a retry.
`reading`: the objects that the decision depends on. `executor`: the steps in the cluster; the leader runs it for
requests by annotation (webhook/controller/retries.py), the command line for its own.
"""
