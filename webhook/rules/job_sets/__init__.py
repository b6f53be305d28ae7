"""What the policy does to a JobSet, and to a TrainJob that becomes one."""
