"""A simulated hour of 200 Jobs that fail for three reasons, with rules of onFailure and without."""
