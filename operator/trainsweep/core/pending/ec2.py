"""Codes of EC2 in the texts of Karpenter and cluster-autoscaler.

Karpenter says "insufficient capacity" also for account quotas and full subnets: only the code tells them apart.
"""

from __future__ import annotations

import re

from trainsweep.api.pending import Why

_CAPACITY = "EC2 has no such machine free now: allow more instance types, zones or capacity types, or wait"
_CODES: tuple[tuple[str, Why, str, str], ...] = (
    ("VcpuLimitExceeded", Why.VCPU_LIMIT_EXCEEDED, "the account's vCPU quota for this instance family is spent",
     "have the EC2 service quota of the region raised, or use another family"),
    ("MaxSpotInstanceCountExceeded", Why.SPOT_QUOTA_EXCEEDED, "the account's spot quota is spent",
     "have the spot service quota raised, or allow on-demand"),
    ("SpotQuotaExceeded", Why.SPOT_QUOTA_EXCEEDED, "the account's spot quota is spent",
     "have the spot service quota raised, or allow on-demand"),
    ("MaxFleetCountExceeded", Why.FLEET_QUOTA_EXCEEDED, "the account's quota of fleets is spent",
     "have the EC2 service quota raised"),
    ("FleetQuotaExceeded", Why.FLEET_QUOTA_EXCEEDED, "the account's quota of fleets is spent",
     "have the EC2 service quota raised"),
    ("InsufficientFreeAddressesInSubnet", Why.SUBNET_FULL, "the subnet has no free address",
     "add subnets to the node class, or use larger ones"),
    ("UnauthorizedOperation", Why.LAUNCH_UNAUTHORIZED, "the node supplier may not launch instances",
     "have the IAM role of Karpenter or the node group checked"),
    ("Unauthorized", Why.LAUNCH_UNAUTHORIZED, "the node supplier may not launch instances",
     "have the IAM role of Karpenter or the node group checked"),
    ("SpotSLRCreationFailed", Why.LAUNCH_UNAUTHORIZED, "the account lacks the service-linked role for spot",
     "have AWSServiceRoleForEC2Spot created"),
    ("AMINotFound", Why.AMI_NOT_FOUND, "the machine image of the node class does not exist",
     "have the AMI of the EC2NodeClass corrected"),
    ("InvalidAMIID", Why.AMI_NOT_FOUND, "the machine image of the node class does not exist",
     "have the AMI of the EC2NodeClass corrected"),
    ("AccountPendingVerification", Why.LAUNCH_FAILED, "AWS is still verifying the account", "ask AWS support"),
    ("PendingVerification", Why.LAUNCH_FAILED, "AWS is still verifying the account", "ask AWS support"),
    ("RequestLimitExceeded", Why.REQUEST_THROTTLED, "EC2 throttles the node supplier", "it tries again by itself"),
    ("ReservationCapacityExceeded", Why.RESERVATION_FULL, "the capacity reservation is full",
     "wait until the reservation has room, or allow on-demand"),
    ("InsufficientInstanceCapacity", Why.INSUFFICIENT_CAPACITY, "", _CAPACITY),
    ("InsufficientCapacity", Why.INSUFFICIENT_CAPACITY, "", _CAPACITY),
    ("UnfulfillableCapacity", Why.INSUFFICIENT_CAPACITY, "", _CAPACITY),
    ("Unsupported", Why.NO_OFFERING, "the instance type is not offered in an allowed zone",
     "allow more zones or instance types"),
    ("LaunchFailed", Why.LAUNCH_FAILED, "the instance could not be launched", "see the NodeClaim's conditions"),
)  # fmt: skip
_MACHINE = re.compile(r"\b[a-z][a-z0-9-]*\d[a-z0-9-]*\.(?:metal(?:-\w+)?|nano|micro|small|medium|\d*x?large)\b")


def code_of(words: str) -> tuple[Why, str, str] | None:
    """Reason, words and cure of the first EC2 code in a text; None where there is none. Case is ignored: both are used."""
    lower = words.lower()
    for code, why, ours, cure in _CODES:
        if code.lower() in lower:
            machine = _MACHINE.search(words)
            kind = f" ({machine[0]})" if machine else ""
            told = ours or "EC2 is out of capacity"
            return why, f"{told}{kind}: {code}", cure
    return None
