"""Counts what ended the pods of each workload, and what that cost. Pure: no clock, no I/O.

- `pods` decodes a pod; `cached` a Job or a JobSet.
- `matching` finds the rule of a failure policy that a pod matches; `outcomes` says how it ended and what that cost.
- `account` adds up the costs, and `scopes` the disruptions of each index; `limits` says what is left.
- `words` makes sentences of it.
- `tracker` has the pods of one workload that are not counted yet; `counting` counts them; `workload_state` has
  everything that a replica knows of the workload.
"""
