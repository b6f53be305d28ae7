"""What every replica knows of the workloads that have an account: their pods, and what placement asks of them."""
