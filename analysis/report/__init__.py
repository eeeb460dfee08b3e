"""One typed document, rendered as HTML, CSV and JSON."""
