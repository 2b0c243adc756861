"""What to do next with a sweep: `decide(observed, now)` and its policies, one file each, over frozen data.

Nothing here knows kopf, kubernetes, boto3, a clock or any I/O; what a pass sees and does is named in `model`.
"""
