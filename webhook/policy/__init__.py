"""The policy that a cluster admin writes: its typed model, its parser, and the settings of one object."""
