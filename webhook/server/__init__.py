"""The shell around the rules: it does all the waiting, for sockets, the API, files and time."""
