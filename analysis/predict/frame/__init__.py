"""The one frame that predictors see: quantities of solo profiles, columns of a row, and how they are named.

Start with `frame`, then `features`, which builds it from the database.
"""
