"""The kubectl plugin, and the completion of its command lines."""
