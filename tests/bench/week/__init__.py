"""A simulated week of a spot market: what Jobs cost, and how soon they finish, under one policy and another."""
