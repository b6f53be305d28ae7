"""The program `control`: counts, writes accounts, ends and reruns workloads, issues the certificates.

- `app` starts and stops it, and serves /healthz, /readyz and /metrics; `certificates` issues what the webhook serves.
- `ledger` counts ended pods and writes accounts, through `store`; `work_queue` has the order of work.
- `crashes` ends what failed by a bug, `eviction_limit` what Kueue evicts too often, `waiting` what does not start;
  `ends` writes that. `brake` says what may be done.
- `retries` runs requested retries. `recorder` makes the records of history.
"""
