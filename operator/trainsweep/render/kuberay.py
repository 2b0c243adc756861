"""What the KubeRay of a cluster can do. Supported: 1.5 to 1.7; what an older one lacks is left out and said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Version = tuple[int, int, int]

TESTED: Version = (1, 6, 1)
MINIMUM: Version = (1, 5, 0)


@dataclass(frozen=True)
class KubeRay:
    """Capabilities of a KubeRay. With `version` None they are those that its CRD shows."""

    version: Version | None = TESTED
    token_auth: bool = True
    """`rayClusterSpec.authOptions` (1.5.1): without it the dashboard's job API runs anybody's code."""
    pre_running_deadline: bool = True
    """`preRunningDeadlineSeconds` (1.6)."""
    head_restart_annotation: bool = True
    """`ray.io/disable-provisioned-head-restart` (1.6): before, a lost head silently runs the job again."""

    @classmethod
    def of_version(cls, version: Version) -> KubeRay:
        """Capabilities by version."""
        return cls(version, version >= (1, 5, 1), version >= (1, 6, 0), version >= (1, 6, 0))

    @classmethod
    def of_crd(cls, crd: Mapping[str, Any]) -> KubeRay:
        """Capabilities by the schema of the RayJob CRD, which is what an API server keeps or drops."""
        spec: Mapping[str, Any] = {}
        for version in crd.get("spec", {}).get("versions", []):
            if version.get("name") == "v1":
                root = version.get("schema", {}).get("openAPIV3Schema", {})
                spec = root.get("properties", {}).get("spec", {}).get("properties", {})
        cluster = spec.get("rayClusterSpec", {}).get("properties", {})
        newer = "preRunningDeadlineSeconds" in spec
        return cls(None, "authOptions" in cluster, newer, newer)

    def lacks(self) -> list[str]:
        """What a user of this KubeRay should know, for a condition."""
        out = []
        if self.version is not None and self.version < MINIMUM:
            out.append(f"KubeRay {'.'.join(map(str, self.version))} is older than 1.5: upgrade it")
        if not self.token_auth:
            out.append(
                "the Ray dashboard has no token: every pod that reaches it can run code; use KubeRay 1.5.1 or newer"
            )
        if not self.head_restart_annotation:
            out.append("a lost head may start the job again before it is noticed; use KubeRay 1.6 or newer")
        return out
