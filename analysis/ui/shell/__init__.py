"""What every page stands in: navigation, filters, frame, access, errors, shared resources.

Start with `frame`, then `resources`.
"""
