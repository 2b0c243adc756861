"""The IAM documents of the EKS overlay: valid, least privilege, and what they allow is what the parts do."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.unit.chart.conftest import ROOT
from tests.unit.docs.test_snippets import EKS, block
from tests.unit.eks.iam import allows, listed

FOLDER = ROOT / "manifests/overlays/eks/iam"
DOCUMENTS: dict[str, dict[str, Any]] = {p.stem: json.loads(p.read_text()) for p in sorted(FOLDER.glob("*.json"))}
BUCKET = "arn:aws:s3:::example-training"
KEY = "arn:aws:kms:eu-west-1:111122223333:key/11111111-2222-3333-4444-555555555555"
VIA_S3 = {"kms:ViaService": "s3.eu-west-1.amazonaws.com"}
TEAM_A = {"aws:PrincipalTag/kubernetes-namespace": "team-a"}
WRITES = re.compile(r":(Put|Delete|Create|Abort|Restore|Replicate|Upload|Bypass|Tag|Untag)")
KNOWN = {
    *(
        "s3:ListBucket",
        "s3:GetBucketLocation",
        "s3:ListBucketMultipartUploads",
        "s3:GetObject",
        "s3:GetObjectAttributes",
    ),
    *("s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts"),
    *("kms:Decrypt", "kms:GenerateDataKey"),
    *("sts:AssumeRole", "sts:TagSession", "sts:AssumeRoleWithWebIdentity"),
}
"""Every action that a role of ours is allowed, spelt as IAM spells it."""
RESOURCE_POLICIES = ("s3-gateway-endpoint", "bucket-policy")
ROLES = [name for name in DOCUMENTS if name not in RESOURCE_POLICIES and not name.startswith("trust-")]


def statements(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = DOCUMENTS[name]["Statement"]
    return found


def test_there_is_a_document_for_each_purpose() -> None:
    assert set(DOCUMENTS) == {
        *("training-role", "training-role-by-namespace", "operator-role", "training-kms", "operator-kms"),
        *("trust-pod-identity", "trust-irsa-operator", "trust-irsa-training", "s3-gateway-endpoint", "bucket-policy"),
    }


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_is_valid(name: str) -> None:
    assert set(DOCUMENTS[name]) == {"Version", "Statement"}
    assert DOCUMENTS[name]["Version"] == "2012-10-17"
    sids = [one.get("Sid", "") for one in statements(name) if "Sid" in one]
    assert len(sids) == len(set(sids))
    for one in statements(name):
        assert set(one) <= {"Sid", "Effect", "Principal", "Action", "Resource", "Condition"}, (
            "no NotAction, NotResource"
        )
        assert one["Effect"] in ("Allow", "Deny")
        assert re.fullmatch(r"[A-Za-z0-9]*", one.get("Sid", ""))
        assert ("Principal" in one) == (name in RESOURCE_POLICIES or name.startswith("trust-"))
        assert ("Resource" in one) != name.startswith("trust-")
        for resource in listed(one.get("Resource", [])):
            assert re.fullmatch(
                r"arn:aws:(s3:::(\$\{[^}]+\}|[^:])+|kms:[a-z0-9-]+:\d{12}:key/[0-9a-f-]{36})", resource
            ), resource
    # 6,144 characters without white space is IAM's limit of a managed policy
    assert len(json.dumps(DOCUMENTS[name], separators=(",", ":"))) < 6144


@pytest.mark.parametrize("name", DOCUMENTS)
def test_no_wildcard_in_an_action(name: str) -> None:
    for one in statements(name):
        assert not [action for action in listed(one["Action"]) if "*" in action]
        if one["Effect"] == "Allow":
            assert set(listed(one["Action"])) <= KNOWN


@pytest.mark.parametrize("name", ROLES)
def test_no_role_writes_beyond_its_prefix(name: str) -> None:
    for one in statements(name):
        if not [action for action in listed(one["Action"]) if WRITES.search(action)]:
            continue
        assert name.startswith("training-"), f"{name} writes"
        for resource in listed(one["Resource"]):
            assert resource in (f"{BUCKET}/team-a/*", f"{BUCKET}/${{aws:PrincipalTag/kubernetes-namespace}}/*", KEY)


@pytest.mark.parametrize("name", ["operator-role", "operator-kms"])
def test_the_operator_only_reads(name: str) -> None:
    for action in [action for one in statements(name) for action in listed(one["Action"])]:
        assert re.match(r"(s3:(Get|List)|kms:Decrypt$)", action), action


TRAINING = ["training-role", "training-role-by-namespace"]
NEEDED: list[tuple[str, str, dict[str, str]]] = [
    ("s3:ListBucket", BUCKET, {"s3:prefix": "team-a/digits/"}),
    ("s3:ListBucket", BUCKET, {"s3:prefix": ""}),
    ("s3:ListBucket", BUCKET, {}),  # HeadBucket
    ("s3:PutObject", f"{BUCKET}/team-a/digits/v1-x/receipt.json", {}),
    ("s3:GetObject", f"{BUCKET}/team-a/digits/v1-x/receipt.json", {}),
    ("s3:DeleteObject", f"{BUCKET}/team-a/digits/v1-x/train/a", {}),
    ("s3:AbortMultipartUpload", f"{BUCKET}/team-a/digits/v1-x/train/a", {}),
]
REFUSED: list[tuple[str, str, dict[str, str]]] = [
    ("s3:ListBucket", BUCKET, {"s3:prefix": "team-b/"}),
    ("s3:ListBucket", BUCKET, {"s3:prefix": "team-ab/"}),
    ("s3:GetObject", f"{BUCKET}/team-b/x", {}),
    ("s3:GetObject", f"{BUCKET}/team-ab/x", {}),
    ("s3:PutObject", f"{BUCKET}/x", {}),
    ("s3:PutObject", "arn:aws:s3:::example-training-2/team-a/x", {}),
    ("s3:PutBucketPolicy", BUCKET, {}),
    ("s3:PutObjectAcl", f"{BUCKET}/team-a/x", {}),
    ("s3:BypassGovernanceRetention", f"{BUCKET}/team-a/x", {}),
]


@pytest.mark.parametrize("name", TRAINING)
def test_what_the_training_may_do(name: str) -> None:
    for action, resource, context in NEEDED:
        assert allows([DOCUMENTS[name]], action, resource, TEAM_A | context), (action, resource)
    for action, resource, context in REFUSED:
        assert not allows([DOCUMENTS[name]], action, resource, TEAM_A | context), (action, resource)


def test_a_session_without_the_namespace_s_tag_gets_no_object() -> None:
    """A role taken by another way than Pod Identity has no tag: the variable must match nothing, not everything."""
    document = DOCUMENTS["training-role-by-namespace"]
    assert not allows([document], "s3:GetObject", f"{BUCKET}/team-a/x")
    assert not allows([document], "s3:GetObject", f"{BUCKET}//x")
    other = {"aws:PrincipalTag/kubernetes-namespace": "team-b"}
    assert not allows([document], "s3:GetObject", f"{BUCKET}/team-a/x", other)


def test_what_the_operator_may_do() -> None:
    document = [DOCUMENTS["operator-role"]]
    for team in ("team-a", "team-b"):
        assert allows(document, "s3:ListBucket", BUCKET, {"s3:prefix": f"{team}/"})
        assert allows(document, "s3:GetObject", f"{BUCKET}/{team}/x/receipt.json")
        for action in ("s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"):
            assert not allows(document, action, f"{BUCKET}/{team}/x/receipt.json")
    assert not allows(document, "s3:GetObject", "arn:aws:s3:::another/x")


@pytest.mark.parametrize("action", ["s3:PutObject", "s3:DeleteObject", "s3:PutObjectAcl"])
def test_the_bucket_itself_refuses_what_the_operator_may_not(action: str) -> None:
    deny = next(one for one in statements("bucket-policy") if one["Sid"] == "NobodyWritesAsTheOperator")
    assert deny["Principal"] == {"AWS": "arn:aws:iam::111122223333:role/trainsweep-operator"}
    anything = {"Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
    assert not allows([anything, {"Statement": [deny]}], action, f"{BUCKET}/team-a/x")


def test_the_bucket_refuses_plain_text() -> None:
    anything = {"Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
    tls = {"Statement": [one for one in statements("bucket-policy") if one["Sid"] == "OnlyTLS"]}
    for secure, expected in (("true", True), ("false", False)):
        assert allows([anything, tls], "s3:GetObject", f"{BUCKET}/x", {"aws:SecureTransport": secure}) is expected


def test_the_key_serves_s3_alone_and_the_operator_cannot_encrypt() -> None:
    training, operator = [DOCUMENTS["training-kms"]], [DOCUMENTS["operator-kms"]]
    assert allows(training, "kms:GenerateDataKey", KEY, VIA_S3)
    assert allows(operator, "kms:Decrypt", KEY, VIA_S3)
    assert not allows(operator, "kms:GenerateDataKey", KEY, VIA_S3)
    assert not allows(operator, "kms:Decrypt", KEY, {"kms:ViaService": "secretsmanager.eu-west-1.amazonaws.com"})
    assert not allows(training, "kms:Decrypt", KEY)


def test_the_endpoint_lets_our_parts_through_and_nobody_else_s_account() -> None:
    endpoint = [DOCUMENTS["s3-gateway-endpoint"]]
    ours = {"aws:PrincipalAccount": "111122223333"}
    for action, resource, context in NEEDED:
        assert allows(endpoint, action, resource, ours | context)
    assert not allows(endpoint, "s3:PutObject", f"{BUCKET}/team-a/x", {"aws:PrincipalAccount": "999999999999"})
    assert not allows(endpoint, "s3:PutObject", "arn:aws:s3:::elsewhere/x", ours)


@pytest.mark.parametrize("name", ["trust-irsa-operator", "trust-irsa-training"])
def test_irsa_trusts_one_account_of_one_cluster(name: str) -> None:
    (one,) = statements(name)
    (conditions,) = one["Condition"].values()
    assert {key.rsplit(":", 1)[1] for key in conditions} == {"aud", "sub"}
    assert all("*" not in value for value in conditions.values())
    assert "system:serviceaccount:" in next(value for key, value in conditions.items() if key.endswith(":sub"))


def test_pod_identity_trusts_this_cluster() -> None:
    (one,) = statements("trust-pod-identity")
    assert one["Principal"] == {"Service": "pods.eks.amazonaws.com"}
    assert set(one["Action"]) == {"sts:AssumeRole", "sts:TagSession"}
    assert allows([{"Statement": [one]}], "sts:AssumeRole", "", _cluster("ml"))
    assert not allows([{"Statement": [one]}], "sts:AssumeRole", "", _cluster("other"))


def _cluster(name: str) -> dict[str, str]:
    return {"aws:SourceAccount": "111122223333", "aws:SourceArn": f"arn:aws:eks:eu-west-1:111122223333:cluster/{name}"}


@pytest.mark.parametrize(("marker", "name"), [("training", "training-role"), ("operator", "operator-role")])
def test_the_page_shows_the_documents(marker: str, name: str) -> None:
    assert json.loads(block(EKS, f"policy: {marker}", "json")) == DOCUMENTS[name]
