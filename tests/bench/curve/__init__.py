"""How memory, start, look-ups and the leader's CPU grow with the number of Jobs and pods."""
