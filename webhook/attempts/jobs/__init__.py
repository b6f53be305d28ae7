"""What the Job controller, the JobSet controller and the ledger tell of the pods of a Job."""
