"""Programs for releases and for clusters of your own."""
