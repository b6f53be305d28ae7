"""What both programs know of the cluster: pods, workloads, nodes, the policy. Taken in from watches; writes nothing."""
