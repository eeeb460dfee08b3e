"""Readers of tables: finding the header, fast, mixed and exact reading, numbers, units, and why a text is refused.

Start with `reader`, which chooses among the readers; `delimited` reads small tables with an account of rows.
"""
