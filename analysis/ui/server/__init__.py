"""Starts the browser application and guards it: the server, its announcement, the shield before every answer.

Start with `server`.
"""
