"""What a format gives and is given: the interface, the account of rows, cells, names and guesses.

Start with `format`, then `reports`. Nothing here knows a reader or a format.
"""
