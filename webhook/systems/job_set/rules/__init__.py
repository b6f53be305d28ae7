"""What the policy does to JobSets and the Jobs in them."""
