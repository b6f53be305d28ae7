"""A pod: what is read of it, how it ended, what that costs, and which rules match. Pure: no clock, no I/O.

- `pods` decodes a pod, `restarts` its restarts in place, `waiting` what it waits for.
- `outcomes` says how it ended and what that cost; `matching` finds the rule of a failure policy, `on_failure` the rule
  of the policy that decides.
- `waves` counts the spot pods that zones lose, `rejections` the pods that nodes reject.
"""
