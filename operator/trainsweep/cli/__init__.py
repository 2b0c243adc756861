"""The commands `trainsweep …` and `kubectl trainsweep …`, and the reading of files as kubectl reads them.

No decision about a sweep is made here: what a sweep means lives in api, plan and render.
"""
