"""The shell around the pure core: what watches, reads, writes and serves, on Kubernetes and on the object store.

Nothing here decides what happens to a sweep: that is `trainsweep.core`; kopf is imported by `operator` alone.
"""
