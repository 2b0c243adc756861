"""A real Kubernetes on one Linux machine, without Docker, for the demo and the tests.

with Cluster(name="it", control_plane_only=True) as c:
    print(c.kubectl("get", "namespaces"))
"""

from devcluster.cluster import Cluster
from devcluster.errors import DevClusterError

__all__ = ["Cluster", "DevClusterError"]
