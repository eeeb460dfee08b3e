"""What to do next: all pairs at once, changes that help, runs that are alike, what to measure.

Start with `square` or `measure_next`.
"""
