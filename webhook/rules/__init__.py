"""What the policy does to an object: one rule one file, each opening with the field paths that it reads and writes."""
