"""Reads files: sniff, parse, validate, load; one module a format."""
