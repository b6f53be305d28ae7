"""What the policy does to a JobSpec."""
