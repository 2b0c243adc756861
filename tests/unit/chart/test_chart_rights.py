"""What the operator may do is what it checks at its start, and nothing more."""

from __future__ import annotations

from typing import Any

import pytest

from trainsweep.runtime.startup import EXPLAINING, FINALIZERS_RIGHT, RIGHTS

Right = tuple[str, str, str]

# Granted to every authenticated user by default, and needed where that default was taken away.
ASK_WHAT_WE_MAY: Right = ("authorization.k8s.io", "selfsubjectaccessreviews", "create")


def used(*, namespaced: bool) -> set[Right]:
    """What the operator's own table says that it uses."""
    return {
        (kind.group, f"{kind.plural}/{subresource}" if subresource else kind.plural, verb)
        for kind, subresource, verbs in (*RIGHTS, *EXPLAINING, FINALIZERS_RIGHT)
        for verb in verbs
        if kind.namespaced is namespaced
    }


CLUSTER_WIDE = used(namespaced=False) | {ASK_WHAT_WE_MAY}
NAMESPACED = used(namespaced=True)


def rights(role: dict[str, Any]) -> set[Right]:
    return {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def named(objects: list[dict[str, Any]], kind: str, name: str) -> list[dict[str, Any]]:
    return [o for o in objects if o["kind"] == kind and o["metadata"]["name"] == name]


def test_an_install_for_all_namespaces_has_one_role(render):
    objects = render()
    (role,) = named(objects, "ClusterRole", "trainsweep")
    assert rights(role) == CLUSTER_WIDE | NAMESPACED
    assert not [o for o in objects if o["kind"] in ("Role", "RoleBinding")]


def test_a_namespaced_install_reads_classes_and_nothing_else_cluster_wide(render):
    objects = render({"watchNamespaces": ["team-a", "team-b"]})
    (role,) = named(objects, "ClusterRole", "trainsweep")
    assert rights(role) == CLUSTER_WIDE
    roles = named(objects, "Role", "trainsweep")
    assert {item["metadata"]["namespace"] for item in roles} == {"team-a", "team-b"}
    for item in roles:
        assert rights(item) == NAMESPACED
    bindings = named(objects, "RoleBinding", "trainsweep")
    assert {item["metadata"]["namespace"] for item in bindings} == {"team-a", "team-b"}
    for item in bindings:
        assert item["subjects"] == [{"kind": "ServiceAccount", "name": "trainsweep", "namespace": "operators"}]
        assert item["roleRef"] == {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "trainsweep"}


@pytest.mark.parametrize("values", [{}, {"watchNamespaces": ["team-a"]}], ids=["all", "namespaced"])
def test_no_role_reads_secrets_or_configmaps_or_holds_a_wildcard(render, values):
    for role in [o for o in render(values) if o["kind"] in ("Role", "ClusterRole")]:
        for group, resource, verb in rights(role):
            assert "*" not in (group, resource, verb)
            assert resource not in ("secrets", "configmaps", "pods/exec", "serviceaccounts/token")
            assert verb not in ("escalate", "bind", "impersonate")


def test_people_get_sweeps_and_neither_status_holds_nor_classes(render):
    objects = render()
    (edit,) = named(objects, "ClusterRole", "trainsweep-edit")
    (view,) = named(objects, "ClusterRole", "trainsweep-view")
    prefix = "rbac.authorization.k8s.io/aggregate-to-"
    assert {k for k in edit["metadata"]["labels"] if k.startswith(prefix)} == {prefix + "edit", prefix + "admin"}
    assert {k for k in view["metadata"]["labels"] if k.startswith(prefix)} == {prefix + "view"}
    for role in (edit, view):
        assert {(group, resource) for group, resource, _ in rights(role)} == {("trainsweep.io", "trainsweeps")}
    assert {verb for *_, verb in rights(view)} == {"get", "list", "watch"}
    assert {"create", "patch", "delete"} <= {verb for *_, verb in rights(edit)}


def test_roles_can_be_left_to_others(render):
    kinds = {o["kind"] for o in render({"rbac": {"create": False, "aggregate": False}})}
    assert not kinds & {"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"}
