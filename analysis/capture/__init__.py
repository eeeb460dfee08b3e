"""Getting data in from the machine itself: what the GPU does now, and jobs measured alone and side by side.

Everything here runs on the standard library and the driver's own binding, so that the part that measures can be carried
to a GPU machine that has nothing else (see `analysis.capture.pack`).
"""
