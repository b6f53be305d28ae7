"""The pods that are known, by what became of them: `running.py` has those of all workloads that have not ended.

`failed.py` has those of one workload that have failed.
"""
