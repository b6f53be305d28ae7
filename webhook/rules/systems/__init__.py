"""What the policy does to workloads of other systems, in each system's own words."""
