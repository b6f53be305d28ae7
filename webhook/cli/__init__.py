"""The command line: one file for each command, and the code that reads documents and prints results."""
