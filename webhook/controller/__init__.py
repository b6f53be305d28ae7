"""The program `control`: counts, writes accounts, ends and reruns workloads, issues the certificates.

- `app`: starts and stops it
- `health`: /healthz, /readyz and /metrics
- `certificates`: issues and renews what the webhook serves, and the caBundles that trust it
"""
