"""The HTML page that shows a report: render.py fills it in, the scripts draw it in the browser."""
