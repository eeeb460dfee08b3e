"""From what a user gives to clean text: opening, unpacking archives, reading ahead while hashing.

Start with `opening`.
"""
