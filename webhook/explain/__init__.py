"""`retry-policy explain`: `load` reads a workload, `build` explains it, `render` prints the explanation."""
