"""What the policy does to each JobSpec, wherever it is embedded."""
