"""The Grafana dashboard: what its panels show, and its JSON."""
