"""What attempts used and lost, and what another policy would do; for the command line alone."""
