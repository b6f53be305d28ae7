"""For people at a terminal: colours, tables that fit, progress, examples in --help. Piped output has none of them."""
