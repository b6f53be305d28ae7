"""Raw objects: read strictly, checked against a shape, edited with a record as JSON Patch, within bounds. Pure."""
