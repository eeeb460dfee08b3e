"""The rules of the data checks, each a small function from the database to findings."""
