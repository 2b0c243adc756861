"""Who may do what, asked of the real authorizer: the operator's ServiceAccount, and people by the aggregated roles."""

from __future__ import annotations

import pytest

from tests.integration.operator.world import OPERATOR_USER, SYSTEM, World

SWEEPS, CLASSES, HOLDS = "trainsweeps.trainsweep.io", "trainsweepclasses.trainsweep.io", "trainsweepholds.trainsweep.io"
JOBS, CLUSTERS = "rayjobs.ray.io", "rayclusters.ray.io"

OPERATOR = [
    ("get list watch patch", SWEEPS, True),
    ("create delete deletecollection", SWEEPS, False),
    ("update", f"{SWEEPS}/status", True),
    ("patch", f"{SWEEPS}/status", False),
    ("update", f"{SWEEPS}/finalizers", True),
    ("get list watch", CLASSES, True),
    ("create update patch delete", CLASSES, False),
    ("get list create delete", HOLDS, True),
    ("get list watch create patch delete", JOBS, True),
    ("update", f"{JOBS}/status", False),
    ("get list watch delete", CLUSTERS, True),
    ("create update patch deletecollection", CLUSTERS, False),
    ("get list patch", "pods", True),
    ("create delete update", "pods", False),
    ("create", "pods/exec", False),
    ("get list watch create update", "secrets", False),
    ("get list watch create update", "configmaps", False),
    ("create list", "events", True),
    ("get list create", "roles.rbac.authorization.k8s.io", False),
    ("create", "selfsubjectaccessreviews.authorization.k8s.io", True),
    ("create", "serviceaccounts/token", False),
    ("impersonate", "users", False),
]
EDIT = [
    ("get list watch create update patch delete", SWEEPS, True),
    ("update patch", f"{SWEEPS}/status", False),
    ("create update delete", HOLDS, False),
    ("create update patch delete", CLASSES, False),
]
VIEW = [
    ("get list watch", SWEEPS, True),
    ("create update patch delete", SWEEPS, False),
    ("update patch", f"{SWEEPS}/status", False),
]
TABLE = [
    (who, verb, resource, allowed)
    for who, rows in (("operator", OPERATOR), ("edit", EDIT), ("admin", EDIT), ("view", VIEW))
    for verbs, resource, allowed in rows
    for verb in verbs.split()
]


@pytest.fixture(scope="module")
def people(world: World) -> dict[str, str]:
    """Users who hold the cluster's own roles in one namespace."""
    users = {"operator": OPERATOR_USER}
    for role in ("view", "edit", "admin"):
        users[role] = f"{role}or"
        binding = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": f"it-{role}", "namespace": "team-a"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "User", "name": users[role], "apiGroup": "rbac.authorization.k8s.io"}],
        }
        path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/team-a/rolebindings/it-{role}"
        world.api.apply(binding, path)
    world.until(lambda: world.may("editor", "create", SWEEPS, "team-a"), "aggregated roles")
    return users


@pytest.mark.parametrize(("who", "verb", "resource", "allowed"), TABLE)
def test_can_i(world: World, people: dict[str, str], who: str, verb: str, resource: str, allowed: bool) -> None:
    assert world.may(people[who], verb, resource, "team-a") is allowed


def test_the_operator_may_not_read_the_secrets_of_its_own_namespace(world: World) -> None:
    assert not world.may(OPERATOR_USER, "get", "secrets", SYSTEM)
