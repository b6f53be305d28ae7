"""The command line: what it reads, what it prints, one file for each group of commands."""
