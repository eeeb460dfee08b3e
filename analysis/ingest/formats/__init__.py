"""One module a format or family of formats; `analysis.ingest.registry` lists them in the order in which they are asked.

Start with `published.tally`, a small one, or `ncu.long`, the largest.
"""
