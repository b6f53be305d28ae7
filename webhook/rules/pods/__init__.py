"""What the policy does to a pod, and which node it may run on."""
