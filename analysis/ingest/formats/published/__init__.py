"""Public data sets as their authors wrote them: Gavel, KACE, Lucid, Tally.

Each module is one data set; `formats.shared.corun_frames` holds what they have in common.
"""
