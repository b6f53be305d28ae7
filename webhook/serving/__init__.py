"""The server: HTTP, certificates, limits, and the composition of everything else."""
