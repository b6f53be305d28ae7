"""A simulated spot market: how soon, and at what cost, Jobs finish under one policy and another."""
