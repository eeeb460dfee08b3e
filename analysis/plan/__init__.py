"""Which jobs go together on which GPU, what that gains, over a trace too, and the files that say so to a scheduler.

Start with `problem` and `solve`; `sets` says where figures come from, `replay` follows a cluster over time.
"""
