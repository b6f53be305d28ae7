"""The dashboard, the alerts and the recording rules, tried with promtool and a real Prometheus."""
