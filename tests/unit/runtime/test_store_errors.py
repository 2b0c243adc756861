"""The table of refusals: every row with its verdict, through the store itself; and the documentation's copy of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import botocore.session
import pytest
from botocore.exceptions import (
    ClientError,
    ConnectTimeoutError,
    CredentialRetrievalError,
    EndpointConnectionError,
    NoCredentialsError,
    NoRegionError,
    ParamValidationError,
    ReadTimeoutError,
    SSLError,
)

from tests.unit.runtime.faults import answer
from tests.unit.runtime.runs import Run
from trainsweep.runtime.store import Absent, Archived, Denied, StoreError, Unavailable, WrongRegion
from trainsweep.runtime.store_errors import TABLE, explain, markdown, row_of
from trainsweep.runtime.store_s3 import ALGORITHMS

PAGE = Path(__file__).resolve().parents[3] / "docs/concepts/verification.md"
KMS = "User: arn:aws:sts::1:assumed-role/op is not authorized to perform: kms:Decrypt on resource: arn:aws:kms:x"


def refused(status: int, code: str, message: str = "words", operation: str = "GetObject", **headers: str) -> Exception:
    answer: Any = {
        "Error": {"Code": code, "Message": message},
        "ResponseMetadata": {"HTTPStatusCode": status, "HTTPHeaders": headers},
    }
    return ClientError(answer, operation)


CASES: list[tuple[Exception, str, type[StoreError], str]] = [
    (refused(403, "AccessDenied", operation="AssumeRole"), "role", Denied, "sts:TagSession"),
    (refused(400, "ExpiredTokenException", operation="AssumeRole"), "role-unreachable", Unavailable, "STS"),
    (refused(404, "NoSuchBucket"), "bucket", Denied, "create it"),
    (refused(301, "PermanentRedirect", **{"x-amz-bucket-region": "eu-west-1"}), "region", WrongRegion, "eu-west-1"),
    (refused(301, "301"), "region", WrongRegion, "storage.region"),
    (refused(400, "AuthorizationHeaderMalformed"), "region", WrongRegion, "storage.region"),
    (refused(403, "AccessDenied", KMS), "kms", Denied, "kms:Decrypt"),
    (refused(400, "KMS.DisabledException", "key is disabled"), "kms", Denied, "enabled"),
    (refused(403, "InvalidObjectState"), "archived", Archived, "restore"),
    (refused(403, "RequestTimeTooSkewed"), "skew", Unavailable, "clock"),
    (refused(400, "ExpiredToken"), "expired", Unavailable, "expired"),
    (refused(403, "ExpiredToken"), "expired", Unavailable, "expired"),
    (refused(503, "SlowDown"), "slow", Unavailable, "slow down"),
    (refused(429, "TooManyRequests"), "slow", Unavailable, "slow down"),
    (refused(412, "PreconditionFailed"), "changed", Unavailable, "replaced"),
    (refused(404, "NoSuchKey"), "absent", Absent, "not there"),
    (refused(404, "404", ""), "absent", Absent, "not there"),
    (refused(403, "InvalidAccessKeyId"), "unknown-credentials", Denied, "ServiceAccount"),
    (refused(403, "SignatureDoesNotMatch"), "unknown-credentials", Denied, "correct"),
    (refused(403, "XAdminUserNotFound"), "unknown-credentials", Denied, "correct"),
    (refused(403, "AccessDenied"), "denied", Denied, "s3:ListBucket"),
    (refused(403, "403", "Forbidden"), "denied", Denied, "Requester Pays"),
    (refused(401, "Unauthorized"), "denied", Denied, "s3:GetObject"),
    (refused(500, "InternalError"), "fault", Unavailable, "again"),
    (refused(503, "ServiceUnavailable"), "fault", Unavailable, "again"),
    (refused(400, "RequestTimeout"), "fault", Unavailable, "again"),
    (refused(418, "Teapot"), "other", Unavailable, "Teapot"),
    (NoCredentialsError(), "no-credentials", Denied, "identity"),
    (NoRegionError(), "no-region", Denied, "AWS_REGION"),
    (CredentialRetrievalError(provider="web", error_msg="x"), "identity", Unavailable, "STS"),
    (ParamValidationError(report="bad"), "bad-request", Denied, "bad"),
    (SSLError(endpoint_url="https://x", error="self-signed"), "tls", Unavailable, "certificate"),
    (ConnectTimeoutError(endpoint_url="https://x"), "no-answer", Unavailable, "gateway endpoint"),
    (ReadTimeoutError(endpoint_url="https://x"), "no-answer", Unavailable, "again"),
    (EndpointConnectionError(endpoint_url="https://x"), "no-answer", Unavailable, "again"),
    (ConnectionResetError("reset"), "no-answer", Unavailable, "again"),
    (ValueError("odd"), "other", Unavailable, "odd"),
]


@pytest.mark.parametrize(("error", "row", "kind", "cure"), CASES, ids=lambda v: v if isinstance(v, str) else None)
def test_a_refusal_has_a_row_a_verdict_and_a_cure(
    error: Exception, row: str, kind: type[StoreError], cure: str
) -> None:
    assert row_of(error).name == row
    found = explain(error, "bucket-x", "a/key")
    assert type(found) is kind
    assert cure in str(found)
    assert "{" not in str(found)


def test_every_row_is_reached_and_only_one_says_that_something_is_missing() -> None:
    assert {row for _, row, _, _ in CASES} == {row.name for row in TABLE}
    assert [row.name for row in TABLE if row.verdict == "Missing"] == ["absent"]
    assert all(row.seen_as and row.cure for row in TABLE)


def test_messages_stay_the_same_from_look_to_look() -> None:
    """A status is written anew when its words change: no request id may be among them."""
    first, second = refused(503, "SlowDown"), refused(503, "SlowDown")
    for number, error in enumerate((first, second)):
        error.response["ResponseMetadata"]["RequestId"] = f"id-{number}"  # type: ignore[attr-defined]  # not in the stubs
    assert str(explain(first, "b", "k")) == str(explain(second, "b", "k"))


def test_the_page_shows_the_table() -> None:
    assert markdown() in PAGE.read_text(encoding="utf-8"), f"docs/concepts/verification.md needs:\n{markdown()}"


def test_an_answer_to_head_has_no_words_so_a_read_says_why(s3_run: Run) -> None:
    answer(s3_run.store, 403, "AccessDenied", KMS)
    with pytest.raises(Denied, match="kms:Decrypt"):
        s3_run.store.head("x")


def test_every_algorithm_of_the_clients_model_is_known() -> None:
    model = botocore.session.get_session().get_service_model("s3")
    members = model.shape_for("HeadObjectOutput").members  # type: ignore[attr-defined]  # not in the stubs
    named = {m.removeprefix("Checksum") for m in members if m.startswith("Checksum")} - {"Type"}
    assert named == set(ALGORITHMS)
    assert set(model.shape_for("ChecksumAlgorithm").enum) == set(ALGORITHMS)  # type: ignore[attr-defined]  # not in the stubs
    assert set(model.shape_for("ChecksumType").enum) == {"COMPOSITE", "FULL_OBJECT"}  # type: ignore[attr-defined]  # not in the stubs
