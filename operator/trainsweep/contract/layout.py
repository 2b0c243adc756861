"""Where a run's objects lie: `<uri>/<namespace>/<name>/<run>/`.

All keys that a document carries are relative to the run's prefix; `relative_key` refuses whatever could leave it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

SWEEP = "sweep.json"
ATTEMPTS = "attempts"
RECEIPT = "receipt.json"
PROGRESS = "progress.json"
TRIALS = "trials.jsonl"
WARM_START = "warm-start.json"
REPORT = "report.html"
TUNE = "tune"
TRAIN = "train"
SNAPSHOT = "checkpoint_manager_snapshot.json"
MANIFEST = "trainsweep-manifest.json"
"""The manifest inside each checkpoint directory: name, size and checksums of every file beside it."""

EXPORT = "export.json"
"""The driver's word on an export: under its attempt, and at the head of the copy, where it is written last."""

START, END, DRIVER_LOG = "start.json", "end.json", "driver.log"

_ODD = re.compile(r"[\x00-\x1f\x7f\\]|(?:^|/)\.{0,2}(?:/|$)")
_ATTEMPT = re.compile(r"^(\d{1,3})-([0-9a-f]{8})$")


class StorageURIError(ValueError):
    """A storage URI or a key that is refused; the message says what to write instead."""


@dataclass(frozen=True)
class Location:
    """A place in a store: `scheme` is `s3` or `file`; `prefix` has no slash at either end and may be empty.

    For `file` the bucket is empty and the prefix is the absolute path without its leading slash.
    """

    scheme: str
    bucket: str
    prefix: str

    @property
    def uri(self) -> str:
        """The one normal form, used in status, receipts and messages."""
        return f"{self.scheme}://{self.bucket}/{self.prefix}".rstrip("/")

    def child(self, *parts: str) -> Location:
        """The place below this one."""
        return Location(self.scheme, self.bucket, "/".join(p for p in (self.prefix, *parts) if p))

    def key(self, relative: str) -> str:
        """The store's full key of a key relative to this place."""
        return f"{self.prefix}/{relative}" if self.prefix else relative


def parse_uri(uri: str) -> Location:
    """Parses `s3://bucket/prefix` (or `file:///dir`) into its normal form.

    Args:
        uri: what the user wrote in `spec.storage.uri`.

    Raises:
        StorageURIError: for another scheme, an ARN, a query, `.` or `..` or an empty segment.
    """
    if uri.lower().startswith("s3://arn:"):
        raise StorageURIError(
            "an ARN is not supported in storage.uri: use the access point's alias (s3://<alias>/prefix)"
        )
    parts = urlsplit(uri)
    if parts.scheme == "s3a":
        raise StorageURIError("storage.uri: write s3:// instead of s3a://")
    if parts.scheme not in ("s3", "file"):
        raise StorageURIError(f"storage.uri must start with s3://, got {uri!r}")
    if parts.query or parts.fragment:
        raise StorageURIError(
            "storage.uri must not carry a query or a fragment: use storage.region, and the class's endpoints"
        )
    path = parts.path.strip("/") if parts.scheme == "s3" else parts.path.rstrip("/").removeprefix("/")
    segments = path.split("/") if path else []
    if any(s in ("", ".", "..") for s in segments):
        raise StorageURIError(f"storage.uri must not contain an empty segment, '.' or '..': {uri!r}")
    if any(ord(c) < 32 or ord(c) == 127 for c in uri):
        raise StorageURIError("storage.uri must not contain control characters")
    if parts.scheme == "s3" and not parts.netloc:
        raise StorageURIError("storage.uri names no bucket: write s3://bucket/prefix")
    if parts.scheme == "file" and parts.netloc:
        raise StorageURIError("storage.uri: write file:///absolute/path")
    return Location(parts.scheme, parts.netloc, path)


def run_location(uri: str, namespace: str, name: str, run: str) -> Location:
    """The run's prefix below the storage URI."""
    return parse_uri(uri).child(namespace, name, run)


def export_folder(checkpoint: str) -> str:
    """Where a checkpoint's copy lies below the export's place: its trial's run and its own name, so no two can mix."""
    return "/".join(checkpoint.split("/")[-2:])


def attempt_id(number: int, sweep_uid: str) -> str:
    """`<n>-<uid8>`: names an attempt's folder; the uid keeps a re-created sweep's attempts apart."""
    return f"{number}-{sweep_uid.replace('-', '')[:8]}"


def parse_attempt_id(text: str) -> tuple[int, str] | None:
    """Number and uid8 of an attempt's folder name, None for anything else."""
    found = _ATTEMPT.match(text)
    return (int(found[1]), found[2]) if found else None


def attempt_key(attempt: str, name: str) -> str:
    """Key of one of an attempt's write-once objects."""
    return f"{ATTEMPTS}/{attempt}/{name}"


def train_run(trial: str, config_hash: str) -> str:
    """Name of a trial's Train run: stable across attempts, different for another configuration."""
    return f"{trial}-{config_hash}"


def relative_key(text: str) -> str:
    """Returns a key that provably stays below the run's prefix.

    Raises:
        StorageURIError: for an absolute key, `.`/`..`, an empty segment, a backslash, control characters or over 1,024 bytes.
    """
    # One scan decides: listings have millions of keys, and nearly all are fine.
    if text and len(text) <= 256 and _ODD.search(text) is None:
        return text
    if not text or len(text.encode("utf-8", "surrogatepass")) > 1024:
        raise StorageURIError("a key must have 1 to 1,024 bytes")
    if text.startswith("/") or "\\" in text or any(ord(c) < 32 or ord(c) == 127 for c in text):
        raise StorageURIError(f"not a relative key: {text[:80]!r}")
    if any(s in ("", ".", "..") for s in text.split("/")):
        raise StorageURIError(f"a key must not contain an empty segment, '.' or '..': {text[:80]!r}")
    return text


def within(uri: str, allowed: str) -> bool:
    """Whether a storage URI lies at or below an allowed prefix, compared segment by segment (`a/b` is not below `a/bc`)."""
    try:
        place, limit = parse_uri(uri), parse_uri(allowed)
    except StorageURIError:
        return False
    if (place.scheme, place.bucket) != (limit.scheme, limit.bucket):
        return False
    return not limit.prefix or place.prefix == limit.prefix or place.prefix.startswith(limit.prefix + "/")
