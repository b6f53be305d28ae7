"""The accounts of workloads, in Accounts: objects of our own beside them."""
