"""From a resolved spec, a class and an attempt to its RayJob, and the checks of KubeRay and Kueue, made first.

Pure: nothing here reads a cluster, a file or a clock, so the same input always gives the same object.
"""
