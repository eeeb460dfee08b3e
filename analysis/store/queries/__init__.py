"""Queries that return frames; the only place with SELECT statements for pages and analyses."""
