"""Which jobs go together, on which GPU, what that gains, and the files that say so to a scheduler."""
