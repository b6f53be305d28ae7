"""What `retry-policy audit` prints: the objects of a cluster that admission would deny, change or warn about."""
