"""What `retry-policy doctor` prints: whether an installation works, and what to do about what does not."""
