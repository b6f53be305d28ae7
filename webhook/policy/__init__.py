"""What a cluster admin decides: the typed model, its parser, and what applies to one object."""
