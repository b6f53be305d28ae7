"""The commands about what attempts cost: in the past, now, and under another policy."""
