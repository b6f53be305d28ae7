"""What `retry-policy explain` tells of one workload: loaded, then built."""
