"""Other projects' own tests, unchanged: in namespaces that are opted in, and beside them in others."""
