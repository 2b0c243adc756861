"""What a pod can have of an EKS node: the machine less what the kubelet, Karpenter's estimate and daemonsets take.

A pod that asks for the whole machine never fits, and waits for ever: lint warns of it before it costs a day.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from trainsweep.api.spec import TrainSweepSpec
from trainsweep.plan import quantity
from trainsweep.plan.plan import plan

INSTANCE_TYPE = "node.kubernetes.io/instance-type"
MI = 2**20
# Karpenter's VM_MEMORY_OVERHEAD_PERCENT by default: the hypervisor keeps some of what the data sheet says.
VM_OVERHEAD = Decimal("0.075")
EVICTION = 100 * MI
# Measured on nodes with vpc-cni, kube-proxy, ebs-csi, the GPU device plugin and a log agent.
DAEMONSET_CPU, DAEMONSET_MEMORY = Decimal("0.5"), 1024 * MI


@dataclass(frozen=True)
class Machine:
    """An instance type, as EC2 describes it; `pods` is the number by which the kubelet reserves memory."""

    cpus: int
    gibibytes: int
    gpus: int
    pods: int
    efa: int = 0

    @property
    def cpu(self) -> Decimal:
        """CPUs for pods: EKS keeps 6 % of the first core, 1 % of the second, 0.5 % of the next two, 0.25 % of the rest."""
        kept = 60 + 10 * (self.cpus > 1) + 5 * min(2, max(0, self.cpus - 2)) + Decimal("2.5") * max(0, self.cpus - 4)
        return self.cpus - kept / 1000 - DAEMONSET_CPU

    @property
    def memory(self) -> Decimal:
        """Bytes of memory for pods: EKS keeps 255 MiB and 11 MiB for each pod that the node may hold."""
        whole = self.gibibytes * 1024 * MI * (1 - VM_OVERHEAD)
        return whole - (255 + 11 * self.pods) * MI - EVICTION - DAEMONSET_MEMORY


MACHINES: dict[str, Machine] = {
    "m7i.2xlarge": Machine(8, 32, 0, 58),
    "m7i.4xlarge": Machine(16, 64, 0, 234),
    "m7i.8xlarge": Machine(32, 128, 0, 234),
    "g5.xlarge": Machine(4, 16, 1, 58),
    "g5.2xlarge": Machine(8, 32, 1, 58),
    "g5.4xlarge": Machine(16, 64, 1, 234),
    "g5.8xlarge": Machine(32, 128, 1, 234),
    "g5.12xlarge": Machine(48, 192, 4, 737),
    "g5.24xlarge": Machine(96, 384, 4, 737),
    "g5.48xlarge": Machine(192, 768, 8, 345),
    "g6.xlarge": Machine(4, 16, 1, 58),
    "g6.2xlarge": Machine(8, 32, 1, 58),
    "g6.4xlarge": Machine(16, 64, 1, 234),
    "g6.8xlarge": Machine(32, 128, 1, 234),
    "g6.12xlarge": Machine(48, 192, 4, 234),
    "g6.48xlarge": Machine(192, 768, 8, 737),
    "p4d.24xlarge": Machine(96, 1152, 8, 737, 4),
    "p5.48xlarge": Machine(192, 2048, 8, 737, 32),
}


def misfits(spec: TrainSweepSpec) -> list[tuple[str, str]]:
    """Pods that the instance type of their nodeSelector can never hold, as (field path, message); unknown types pass."""
    rows = [("spec.cluster.head.resources", spec.cluster.head.node_selector, plan(spec).head)]
    rows += [(f"{s.path}.resources", s.group.node_selector, s.resources) for s in plan(spec).shapes if s.group]
    out = []
    for path, selector, resources in rows:
        kind = selector.get(INSTANCE_TYPE, "")
        machine = MACHINES.get(kind)
        if machine is not None:
            out += [(path, f"{words} on a {kind}: the pod would wait for ever") for words in _lacks(machine, resources)]
    return out


def _lacks(machine: Machine, resources: dict[str, str]) -> list[str]:
    asked = {name: quantity.parse(value) for name, value in resources.items()}
    huge = sum(amount for name, amount in asked.items() if name.startswith("hugepages-"))
    rows = [
        ("cpu", asked.get("cpu", Decimal(0)), machine.cpu, ""),
        ("memory", (asked.get("memory", Decimal(0)) + huge) / 2**30, machine.memory / 2**30, "Gi"),
        ("GPUs", Decimal(quantity.gpus(resources)), Decimal(machine.gpus), ""),
        ("vpc.amazonaws.com/efa", asked.get("vpc.amazonaws.com/efa", Decimal(0)), Decimal(machine.efa), ""),
    ]
    return [
        f"{name}: asks for {float(want):.4g}{unit}, a pod has at most {float(have):.4g}{unit}"
        for name, want, have, unit in rows
        if want > have
    ]
