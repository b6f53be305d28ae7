"""The accounts of workloads that must not be written, or that are no objects: in Accounts, objects of our own."""
