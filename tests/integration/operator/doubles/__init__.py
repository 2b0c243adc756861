"""What stands in for the rest of the world in these tests: KubeRay with its pods, and the driver inside them.

The API server, the garbage collector, the S3 server and the operator are real and are not here.
"""
