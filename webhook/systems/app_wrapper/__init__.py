"""AppWrappers."""
