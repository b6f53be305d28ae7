"""History: what every ended attempt and every ended workload used and cost, as records that outlive both."""
