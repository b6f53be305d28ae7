"""The kubectl plugin, and what a shell offers while a user types: names from the cluster."""
