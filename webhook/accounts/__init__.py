"""Accounts: what ended the pods of each workload, what that cost, and what is left. Pure: no clock, no I/O.

- `account` adds up the costs, `scopes` the disruptions of each index, `kueue` evictions; `limits` says what is left.
- `counting` counts ended pods, `in_place` restarts in place, by what `tracker` and `tracked` have of one workload.
- `stored` is the Account in the API; `cached` and `cached_account` are what is kept of listed objects.
- `settling` decides which crashes end a workload; `forecast` says what the next failure would do; `words` say it.
"""
