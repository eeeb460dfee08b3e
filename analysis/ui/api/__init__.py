"""The programming interface: what a scheduler asks over HTTP, in the process that serves the pages."""
