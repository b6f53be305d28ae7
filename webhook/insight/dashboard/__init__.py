"""`retry-policy dashboard`: the page of a report, live, on the user's own machine. It only reads."""
