"""Restarts in place: containers that a kubelet starts again in the same pod. Each is an attempt that has ended.

`reading.py` reads them from a pod's status, `tracking.py` says which of them an account lacks, `counting.py` counts
them. All pure.
"""
