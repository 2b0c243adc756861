"""Arithmetic of a sweep: which pods hold which workers, how many at most, how long and how often at worst.

Pure: nothing here renders an object, reads a cluster or knows the time.
"""
