"""Why a sweep waits: recorded objects and events in, a chain of layers out, each with reason, message and cure.

Pure: what is read is said by `situation`, one file reads one layer, `chain` puts them in order and finds the lowest.
"""
