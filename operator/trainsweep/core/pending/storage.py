"""Layer Storage: the run's store refuses or cannot be reached, as the operator or the driver were told."""

from __future__ import annotations

from trainsweep.api.conditions import Condition, Reason
from trainsweep.api.pending import Layer, Why
from trainsweep.core.pending.situation import Answer, Finding, Situation, cut

_TEXTS: tuple[tuple[tuple[str, ...], Why, str], ...] = (
    (("NoSuchBucket", "bucket does not exist"), Why.BUCKET_NOT_FOUND,
     "create the bucket, or correct spec.storage.uri and region"),
    (("InvalidAccessKeyId", "XAdminUserNotFound", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken",
      "Unable to locate credentials", "NoCredentials", "NO_CREDENTIALS", "AssumeRoleWithWebIdentity"),
     Why.STORAGE_CREDENTIALS,
     "check the role of spec.storage.serviceAccountName, or the Secret that the class names"),
    (("SlowDown", "503 ", "Please reduce your request rate"), Why.STORAGE_SLOW_DOWN, "the store asks for patience"),
    (("AccessDenied", "Access Denied", "ACCESS_DENIED", "Forbidden", "403 "), Why.STORAGE_DENIED,
     "grant s3:ListBucket, s3:GetObject and, for the Ray pods, s3:PutObject under the run's prefix"),
    (("NETWORK_CONNECTION", "curlCode", "Connect timeout", "ConnectTimeout", "EndpointConnectionError",
      "Could not connect", "Connection refused", "timed out", "Name or service not known"), Why.STORAGE_UNREACHABLE,
     "check the endpoint, DNS, the S3 gateway endpoint and network policies"),
)  # fmt: skip
_PASSING = (Why.STORAGE_SLOW_DOWN, Why.STORAGE_UNREACHABLE)


def look(seen: Situation) -> Answer:
    """The operator's own trouble with the store, else the driver's."""
    told = [(seen.store, "the operator"), *_from_status(seen), (seen.status.progress.message, "the driver")]
    for words, who in told:
        for marks, why, cure in _TEXTS if words else ():
            if any(mark in words for mark in marks):
                return Finding(Layer.STORAGE, why, f"{who}: {cut(words, 500)}", cure, why in _PASSING)
    if seen.store:
        cure = "see the log of the operator"
        return Finding(Layer.STORAGE, Why.STORAGE_UNREACHABLE, f"the operator: {cut(seen.store, 500)}", cure, True)
    return None


def _from_status(seen: Situation) -> list[tuple[str, str]]:
    verified = next((c for c in seen.status.conditions if c.type == Condition.CHECKPOINTS_VERIFIED), None)
    unread = verified is not None and verified.reason in (Reason.STORE_DENIED, Reason.STORE_UNREADABLE)
    return [(verified.message, "the operator")] if verified is not None and unread else []
