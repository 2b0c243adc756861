"""What each refusal of a store means: one table, first match, from the client's error to a verdict and its cure.

Only one row says that something is not there. All others say nothing about the object: the verdict stays Unknown.
`python -m trainsweep.runtime.store_errors` prints the table of docs/concepts/verification.md.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionClosedError,
    ConnectionError,  # botocore's, which has nothing to do with the builtin
    CredentialRetrievalError,
    HTTPClientError,
    NoCredentialsError,
    NoRegionError,
    ParamValidationError,
    PartialCredentialsError,
    SSLError,
    TokenRetrievalError,
)

from trainsweep.runtime.store import Absent, Archived, Denied, StoreError, Unavailable, WrongRegion

ASSUME = "AssumeRole"


@dataclass(frozen=True)
class Row:
    """One kind of refusal. A row matches by its operation, exceptions, codes, HTTP statuses and text; empty matches all."""

    name: str
    kind: type[StoreError]
    cure: str
    """What the message says: {key}, {bucket}, {region} and {words} (the store's own) are filled in."""
    codes: frozenset[str] = frozenset()
    statuses: frozenset[int] = frozenset()
    either: bool = False
    """Codes or statuses; else both where both are given."""
    text: str = ""
    """Regular expression that the code or the message must contain."""
    errors: tuple[type[Exception], ...] = ()
    operation: str = ""
    seen_as: str = ""
    """For the documentation: how it looks from outside."""

    @property
    def verdict(self) -> str:
        """What the second look says of an object whose read ended so."""
        return "Missing" if self.kind is Absent else "Unknown"

    @property
    def waits_for(self) -> str:
        """Whether time alone may mend it."""
        if self.kind is Absent:
            return "mending: the driver trains the lost part again"
        return "a person" if issubclass(self.kind, Denied) else "time: it is looked at again"


def _codes(*names: str) -> frozenset[str]:
    return frozenset(names)


TABLE = (
    Row(
        "role",
        Denied,
        "the operator may not assume the class's verifierRoleARN ({words}): let the role's trust policy allow "
        "sts:AssumeRole and sts:TagSession to the operator's own identity",
        operation=ASSUME,
        codes=_codes("AccessDenied", "AccessDeniedException", "InvalidClientTokenId", "ValidationError"),
        seen_as="403 of STS",
    ),
    Row(
        "role-unreachable",
        Unavailable,
        "the class's verifierRoleARN could not be assumed just now ({words}): STS is asked again; in a private cluster "
        "give the operator an interface endpoint for STS",
        operation=ASSUME,
        seen_as="any other answer of STS, or none",
    ),
    Row(
        "bucket",
        Denied,
        "bucket {bucket} does not exist: create it, or correct spec.storage.uri",
        codes=_codes("NoSuchBucket"),
        seen_as="404 `NoSuchBucket`",
    ),
    Row(
        "region",
        WrongRegion,
        "bucket {bucket} lies in region {region}: set spec.storage.region to it",
        codes=_codes(
            "PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException", "301", "307"
        ),
        statuses=frozenset({301, 307}),
        either=True,
        seen_as="301, `PermanentRedirect`, `AuthorizationHeaderMalformed`",
    ),
    Row(
        "kms",
        Denied,
        "the key that encrypts {key} may not be used ({words}): allow kms:Decrypt on it to the operator's role, in the "
        "role and in the key's policy, and see that the key is enabled",
        text=r"(?i)\bkms\b|kms[:.]",
        statuses=frozenset({400, 403}),
        seen_as="403 or 400 with KMS in the text, `KMS.*`",
    ),
    Row(
        "archived",
        Archived,
        "{key} is in an archive ({words}) and cannot be read: restore it (aws s3api restore-object), and take the run's "
        "prefix out of the bucket's lifecycle rule",
        codes=_codes("InvalidObjectState"),
        seen_as="403 `InvalidObjectState`; HEAD with an archive as storage class and no finished restore",
    ),
    Row(
        "skew",
        Unavailable,
        "the clock of the operator's node and the store's differ by too much ({words}): mend the time of the node",
        codes=_codes("RequestTimeTooSkewed", "RequestInTheFuture", "RequestExpired"),
        seen_as="403 `RequestTimeTooSkewed`",
    ),
    Row(
        "expired",
        Unavailable,
        "the operator's credentials have expired ({words}): an identity of the ServiceAccount is renewed by itself; "
        "credentials from a Secret must be replaced, and the operator restarted",
        codes=_codes("ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired"),
        seen_as="400 or 403 `ExpiredToken`",
    ),
    Row(
        "slow",
        Unavailable,
        "the store of bucket {bucket} asks to slow down ({words}): the look is made again later; if it stays, spread "
        "sweeps over prefixes",
        codes=_codes(
            "SlowDown",
            "TooManyRequests",
            "TooManyRequestsException",
            "Throttling",
            "ThrottlingException",
            "RequestLimitExceeded",
            "RequestThrottled",
            "BandwidthLimitExceeded",
        ),
        statuses=frozenset({429}),
        either=True,
        seen_as="429, 503 `SlowDown`, `Throttling`",
    ),
    Row(
        "changed",
        Unavailable,
        "{key} was replaced while it was read: the look is made again",
        codes=_codes("PreconditionFailed", "ConditionalRequestConflict", "412"),
        statuses=frozenset({412}),
        either=True,
        seen_as="412 `PreconditionFailed`",
    ),
    Row(
        "absent",
        Absent,
        "{key} is not there",
        codes=_codes("NoSuchKey", "NotFound", "404"),
        statuses=frozenset({404}),
        either=True,
        seen_as="404 `NoSuchKey`",
    ),
    Row(
        "unknown-credentials",
        Denied,
        "the store of bucket {bucket} does not know the operator's credentials ({words}): correct them, or bind the "
        "operator's ServiceAccount to an identity (docs/howto/eks.md)",
        codes=_codes("InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "XAdminUserNotFound"),
        seen_as="403 `InvalidAccessKeyId`, `SignatureDoesNotMatch`",
    ),
    Row(
        "denied",
        Denied,
        "the store refuses to let the operator read {key} in bucket {bucket} ({words}): allow s3:GetObject and "
        "s3:ListBucket (without the latter a missing key looks like a denied one), and look at the bucket's policy, its "
        "VPC endpoint condition and Requester Pays",
        codes=_codes("AccessDenied", "AllAccessDisabled", "AccountProblem", "Forbidden"),
        statuses=frozenset({401, 403}),
        either=True,
        seen_as="401, 403",
    ),
    Row(
        "fault",
        Unavailable,
        "the store failed on {key} ({words}): the look is made again",
        codes=_codes("InternalError", "ServiceUnavailable", "RequestTimeout", "OperationAborted"),
        statuses=frozenset({408, 409, 500, 502, 503, 504, 507}),
        either=True,
        seen_as="5xx, 408 `RequestTimeout`",
    ),
    Row(
        "no-credentials",
        Denied,
        "the operator has no credentials for the store: give its ServiceAccount an identity that can read it",
        errors=(NoCredentialsError, PartialCredentialsError),
        seen_as="no credentials found",
    ),
    Row(
        "no-region",
        Denied,
        "no region is known for bucket {bucket}: set spec.storage.region, or AWS_REGION of the operator",
        errors=(NoRegionError,),
        seen_as="no region found",
    ),
    Row(
        "identity",
        Unavailable,
        "the operator's identity could not be had ({words}): it is asked for again; see that STS (IRSA) or the Pod "
        "Identity agent can be reached",
        errors=(CredentialRetrievalError, TokenRetrievalError),
        seen_as="no answer to the request for credentials",
    ),
    Row(
        "bad-request",
        Denied,
        "{key} cannot be asked for: {words}",
        errors=(ParamValidationError,),
        seen_as="refused by the client itself",
    ),
    Row(
        "tls",
        Unavailable,
        "no trusted connection to the store for {key} ({words}): correct the endpoint's certificate, or AWS_CA_BUNDLE",
        errors=(SSLError,),
        seen_as="TLS refused",
    ),
    Row(
        "no-answer",
        Unavailable,
        "the store did not answer on {key} ({words}): the look is made again; in a private cluster see to the gateway "
        "endpoint for S3 and to NetworkPolicies",
        errors=(ConnectionError, ConnectionClosedError, HTTPClientError, OSError),
        seen_as="time-out, connection refused or cut",
    ),
    Row(
        "other",
        Unavailable,
        "the store answered {words} on {key}: the look is made again",
        seen_as="anything else",
    ),
)
"""In the order of matching."""


def row_of(error: Exception) -> Row:
    """The row that an error of the client falls under."""
    answer = error.response if isinstance(error, ClientError) else {}
    told: dict[str, Any] = dict(answer.get("Error", {}))
    code = str(told.get("Code", ""))
    status = int(answer.get("ResponseMetadata", {}).get("HTTPStatusCode") or 0)
    said = f"{code} {told.get('Message', '')}"
    operation = str(getattr(error, "operation_name", ""))
    for row in TABLE:
        if row.operation and operation != row.operation:
            continue
        if row.errors and not isinstance(error, row.errors):
            continue
        if row.text and not re.search(row.text, said):
            continue
        by_code, by_status = code in row.codes, status in row.statuses
        if row.either and not (by_code or by_status):
            continue
        if not row.either and ((row.codes and not by_code) or (row.statuses and not by_status)):
            continue
        return row
    return TABLE[-1]


def explain(error: Exception, bucket: str, key: str) -> StoreError:
    """The typed error of whatever the client raised, with a message that names the cure.

    No request id and no time in it: a status is written anew when its words change.
    """
    if isinstance(error, StoreError):
        return error
    row, words, region = row_of(error), f"{type(error).__name__}: {error}", ""
    if isinstance(error, ClientError):
        told: dict[str, Any] = dict(error.response.get("Error", {}))
        meta: dict[str, Any] = dict(error.response.get("ResponseMetadata", {}))
        headers = meta.get("HTTPHeaders") or {}
        region = str(told.get("Region") or headers.get("x-amz-bucket-region") or "")
        message, code = str(told.get("Message") or ""), str(told.get("Code", ""))
        words = " ".join(p for p in (code or f"HTTP {meta.get('HTTPStatusCode')}", message) if p)
    elif isinstance(error, BotoCoreError):
        words = str(error)
    if row.kind is WrongRegion:
        return WrongRegion(bucket, region)
    return row.kind(row.cure.format(key=key, bucket=bucket, region=region or "another one", words=words[:300]))


def markdown() -> str:
    """The table for the documentation."""
    lines = ["| what the store says | verdict | waits for | what the message says |", "|---|---|---|---|"]
    for row in TABLE:
        cure = re.sub(r" ?\(\{words\}\)", "", row.cure).replace("{words}", "…")
        for name in ("key", "bucket", "region"):
            cure = cure.replace(f"{{{name}}}", name.upper())
        lines.append(f"| {row.seen_as} | {row.verdict} | {row.waits_for} | {cure} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(markdown())
