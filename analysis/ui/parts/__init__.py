"""The parts of the pages, named by their page.

Start from the page under `pages/`; it names its parts.
"""
