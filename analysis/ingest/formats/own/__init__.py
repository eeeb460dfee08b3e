"""StallScope's own tables: co-runs, profiles, and the provenance of a capture.

Start with `columns`, the words of the tables, then `coruns`.
"""
