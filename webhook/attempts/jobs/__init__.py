"""The sources for pods of Jobs: signals of the Job controller, the JobSet controller and the ledger."""
