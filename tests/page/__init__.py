"""The HTML page of a report, and the dashboard, in a real headless Chromium: make test-page."""
