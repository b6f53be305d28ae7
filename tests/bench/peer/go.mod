module retry-policy.dev/tests/bench/peer

go 1.22
