"""What holds the leader back: an upgrade of a node pool under the rate limit, and how soon a stop is in force."""
