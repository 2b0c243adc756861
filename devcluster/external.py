"""A cluster that the user already has, with the few verbs that the demo needs: `make demo CLUSTER=current`.

TrainSweep, KubeRay and a TrainSweepClass that is marked default must be installed there; nothing is installed for you.
"""

from pathlib import Path

from devcluster import tools
from devcluster.errors import DevClusterError
from devcluster.shell import run


class ExternalCluster:
    """The cluster of the current kubeconfig. Credentials of the store come from the environment."""

    @classmethod
    def from_environment(cls) -> "ExternalCluster":
        """Checks that what the demo needs is there.

        Raises:
            DevClusterError: the cluster cannot be reached, or TrainSweep or a default class is missing.
        """
        cluster = cls()
        try:
            classes = cluster.kubectl("get", "trainsweepclasses", "-o", "jsonpath={.items[*].metadata.annotations}")
        except DevClusterError as error:
            raise DevClusterError(
                "TrainSweep is not installed on your cluster, or it cannot be reached: "
                f"helm install trainsweep charts/trainsweep -n trainsweep-system --create-namespace\n{error}"
            ) from error
        if "trainsweep.io/is-default-class" not in classes:
            raise DevClusterError(
                "no TrainSweepClass is marked default: the example names no image and no bucket, the class does. "
                "Set defaultClass in the chart's values (docs/howto/eks.md)."
            )
        return cluster

    def kubectl(self, *args: str | Path, stdin: str | None = None, timeout: float = 120) -> str:
        """Run kubectl with the user's own kubeconfig."""
        return run([tools.kubectl(), *args], stdin=stdin, timeout=timeout)

    def env(self) -> dict[str, str]:
        """Nothing: boto3 finds what it needs in the user's environment."""
        return {}
