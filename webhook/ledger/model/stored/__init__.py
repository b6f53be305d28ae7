"""How the account of a workload is stored and read."""
