"""Raw objects: decoded strictly, checked against a shape, edited with a record as JSON Patch, within bounds. Pure."""
