"""The store over S3 and what speaks its protocol, by boto3: explicit time-outs, few retries, default credentials."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import ClientError

from trainsweep.contract.digests import Part
from trainsweep.contract.documents import Checksum
from trainsweep.contract.layout import Location, StorageURIError, relative_key
from trainsweep.runtime.s3_clients import Role, client_for
from trainsweep.runtime.store import (
    CHUNK,
    Absent,
    Archived,
    Bounded,
    Entry,
    FileStore,
    Info,
    Store,
    StoreError,
    TooLarge,
    Unavailable,
    full_key,
)
from trainsweep.runtime.store_errors import explain

PAGE = 1000
RANGE = 64 * 1024 * 1024
"""Bytes of one ranged read: what a connection that breaks costs at most."""
RETRIES = 3
ABANDONED_SECONDS = 3600
MOST_PARTS = 10_000
PARTS_BY_HEAD = 64
"""Up to this many parts are asked for one by one where the store has no GetObjectAttributes."""
ALGORITHMS = (
    "SHA256",
    "SHA1",
    "CRC32",
    "CRC32C",
    "CRC64NVME",
    "SHA512",
    "MD5",
    "XXHASH64",
    "XXHASH3",
    "XXHASH128",
)
"""Every algorithm that botocore's model of S3 names."""
ARCHIVES = frozenset({"GLACIER", "DEEP_ARCHIVE"})
_log = logging.getLogger(__name__)


def open_store(location: Location, region: str = "", endpoint: str = "", role: Role | None = None) -> Store:
    """The store of a prefix.

    Args:
        location: the prefix.
        region: of the bucket, "" for the default.
        endpoint: of a store that is not AWS's, "" for AWS.
        role: the role that is assumed to read; absent: one's own identity.

    Raises:
        StoreError: where no client can be made.
    """
    if location.scheme == "file":
        return FileStore(location)
    return S3Store(location, client_for(region, endpoint, role))


class S3Store(Bounded):
    """Reads below one prefix of one bucket."""

    def __init__(self, location: Location, client: Any) -> None:
        if location.scheme != "s3":
            raise StorageURIError(f"not an s3:// location: {location.uri}")
        self._location, self._client = location, client
        self._cut = len(location.prefix) + 1 if location.prefix else 0

    @property
    def location(self) -> Location:
        """The prefix."""
        return self._location

    def _where(self, key: str) -> dict[str, str]:
        return {"Bucket": self._location.bucket, "Key": full_key(self._location, key)}

    def get(self, key: str, limit: int) -> bytes:
        """See `Store`. Only the first bytes are asked for: a huge object costs no more than a small one."""
        try:
            answer = self._client.get_object(**self._where(key), Range=f"bytes=0-{limit}")
            with closing(answer["Body"]) as body:
                # A store that ignores Range still is read no further than this.
                data: bytes = body.read(limit + 1)
        except ClientError as error:
            if _code(error) in ("InvalidRange", "416"):
                return b""  # an empty object has no first byte
            raise self._error(error, key) from None
        except Exception as error:
            raise self._error(error, key) from None
        if len(data) > limit:
            raise TooLarge(f"{key} has more than {limit} bytes")
        return data

    def entries(self, folder: str) -> Iterator[Entry]:
        """See `Store`."""
        for page in self._pages(full_key(self._location, folder) + "/", folder):
            for item in page.get("Contents") or ():
                if str(item["Key"]).endswith("/"):
                    continue
                try:
                    key = relative_key(str(item["Key"])[self._cut :])
                except StorageURIError:
                    continue  # no key that a receipt could name
                yield Entry(key, int(item["Size"]), str(item.get("StorageClass")) in ARCHIVES)

    def folder_names(self, folder: str) -> Iterator[str]:
        """See `Store`."""
        prefix = full_key(self._location, folder) + "/"
        for page in self._pages(prefix, folder, Delimiter="/"):
            for item in page.get("CommonPrefixes") or ():
                if name := str(item["Prefix"])[len(prefix) :].rstrip("/"):
                    yield name

    def head(self, key: str) -> Info:
        """See `Store`."""
        try:
            answer = self._client.head_object(**self._where(key), ChecksumMode="ENABLED")
        except ClientError as error:
            status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") or 0)
            if status not in (400, 401, 403) or error.response.get("Error", {}).get("Message") not in (
                None,
                "",
                "Forbidden",
                "Bad Request",
                "Unauthorized",
            ):
                raise self._error(error, key) from None
            return self._head_by_reading(key)  # an answer to HEAD has no body: only a read says why
        except Exception as error:
            raise self._error(error, key) from None
        _refuse_archived(answer, key)
        stored = list(_stored(answer))
        # A store that does not say the type of a checksum over parts leaves open what it covers: it proves nothing.
        in_parts = "-" in str(answer.get("ETag") or "")
        whole = answer.get("ChecksumType") == "FULL_OBJECT" or (answer.get("ChecksumType") is None and not in_parts)
        return Info(
            int(answer["ContentLength"]),
            tuple(c for c in stored if whole and "-" not in c.value),
            tuple(c for c in stored if "-" in c.value),
            str(answer.get("Expiration") or ""),
        )

    def _head_by_reading(self, key: str) -> Info:
        try:
            answer = self._client.get_object(**self._where(key), Range="bytes=0-0")
            answer["Body"].close()
        except ClientError as error:
            if _code(error) in ("InvalidRange", "416"):
                return Info(0)
            raise self._error(error, key) from None
        except Exception as error:
            raise self._error(error, key) from None
        _, _, whole = str(answer.get("ContentRange") or "").rpartition("/")
        return Info(int(whole) if whole.isdecimal() else int(answer["ContentLength"]))

    def parts(self, key: str, algorithm: str) -> list[Part] | None:
        """See `Store`."""
        try:
            return self._parts_by_attributes(key, algorithm) or self._parts_by_head(key, algorithm)
        except (ClientError, KeyError, TypeError, ValueError) as error:
            _log.debug("parts of %s: %s", key, error)
            return None  # not every store and not every role knows them: the bytes are read then
        except Exception as error:
            raise self._error(error, key) from None

    def _parts_by_attributes(self, key: str, algorithm: str) -> list[Part] | None:
        found: list[Part] = []
        marker: dict[str, int] = {}
        while len(found) < MOST_PARTS:
            try:
                answer = self._client.get_object_attributes(
                    **self._where(key), ObjectAttributes=["ObjectParts"], MaxParts=1000, **marker
                )
            except ClientError as error:
                _log.debug("attributes of %s: %s", key, error)
                return None
            told = answer.get("ObjectParts") or {}
            page = told.get("Parts") or ()
            found += [Part(int(p["Size"]), str(p[f"Checksum{algorithm}"])) for p in page]
            if not told.get("IsTruncated") or not page:
                return found if found and len(found) == int(told["TotalPartsCount"]) else None
            marker = {"PartNumberMarker": int(told["NextPartNumberMarker"])}
        return None

    def _parts_by_head(self, key: str, algorithm: str) -> list[Part] | None:
        found: list[Part] = []
        count = 1
        while len(found) < count:
            answer = self._client.head_object(**self._where(key), ChecksumMode="ENABLED", PartNumber=len(found) + 1)
            count = int(answer["PartsCount"])
            if count > PARTS_BY_HEAD:
                return None
            found.append(Part(int(answer["ContentLength"]), str(answer[f"Checksum{algorithm}"])))
        return found

    def chunks(self, key: str) -> Iterator[bytes]:
        """See `Store`. Read range by range, always of the same version; a broken connection costs one range at most."""
        at, size, version, failures = 0, -1, "", 0
        while size < 0 or at < size:
            same = {"IfMatch": version} if version else {}
            try:
                answer = self._client.get_object(**self._where(key), Range=f"bytes={at}-{at + RANGE - 1}", **same)
                ranged = str(answer.get("ContentRange") or "")
                _, _, whole = ranged.rpartition("/")
                version = str(answer.get("ETag") or "")
                if not ranged and at:
                    raise Unavailable(f"{key}: the store forgot how to read from the middle of an object")
                size = int(whole) if whole.isdecimal() else int(answer["ContentLength"])
                # Not entered as a context manager: that gives the raw response, which knows no iter_chunks.
                with closing(answer["Body"]) as body:
                    for piece in body.iter_chunks(CHUNK):
                        at += len(piece)
                        yield piece
            except ClientError as error:
                if _code(error) in ("InvalidRange", "416") and at == 0:
                    return
                raise self._error(error, key) from None
            except StoreError:
                raise
            except Exception as error:
                failures += 1
                if failures > RETRIES or size < 0:
                    raise self._error(error, key) from None

    def uploading(self, folder: str) -> set[str]:
        """See `Store`. Older ones were abandoned; not every store or role can list them, which is no error."""
        prefix = full_key(self._location, folder) + "/"
        now = datetime.now(UTC)
        found: set[str] = set()
        marker: dict[str, str] = {}
        while True:
            try:
                page = self._client.list_multipart_uploads(Bucket=self._location.bucket, Prefix=prefix, **marker)
            except Exception as error:
                _log.debug("uploads below %s: %s", folder, error)
                return found
            found |= {
                str(u["Key"])[self._cut :]
                for u in page.get("Uploads") or ()
                if (now - u["Initiated"]).total_seconds() < ABANDONED_SECONDS
            }
            following = {"KeyMarker": page.get("NextKeyMarker"), "UploadIdMarker": page.get("NextUploadIdMarker")}
            if not page.get("IsTruncated") or not following["KeyMarker"] or following == marker:
                return found
            marker = {k: str(v) for k, v in following.items() if v}

    def advice(self, key: str) -> str:
        """See `Store`. Needs rights that the operator can do without, so nothing here is an error."""
        where = self._where(key)
        try:
            page = self._client.list_object_versions(Bucket=where["Bucket"], Prefix=where["Key"], MaxKeys=10)
            gone = any(m.get("Key") == where["Key"] and m.get("IsLatest") for m in page.get("DeleteMarkers") or ())
            older = next((v for v in page.get("Versions") or () if v.get("Key") == where["Key"]), None)
        except Exception as error:
            _log.debug("versions of %s: %s", key, error)
            gone, older = False, None
        rule = self._rule_over(where["Key"])
        if gone and older is not None:
            cause = f"lifecycle rule {rule!r} or a person" if rule else "somebody"
            return (
                f"{cause} deleted {key}; its bytes are still there under version {older.get('VersionId')}: remove the "
                "delete marker to have it back"
            )
        if rule:
            return f"lifecycle rule {rule!r} of bucket {where['Bucket']} expires {key}: take the run's prefix out of it"
        return ""

    def _rule_over(self, key: str) -> str:
        """The lifecycle rule that expires objects under a key, "" where there is none or none can be read."""
        try:
            rules = self._client.get_bucket_lifecycle_configuration(Bucket=self._location.bucket).get("Rules") or ()
        except Exception as error:
            _log.debug("lifecycle of %s: %s", self._location.bucket, error)
            return ""
        for rule in rules:
            chosen = rule.get("Filter") or {}
            prefix = chosen.get("Prefix") or (chosen.get("And") or {}).get("Prefix") or rule.get("Prefix") or ""
            removes = {"Days", "Date"} & set(rule.get("Expiration") or {})
            if rule.get("Status") == "Enabled" and removes and key.startswith(prefix):
                return str(rule.get("ID") or prefix or "without a name")
        return ""

    def _pages(self, prefix: str, folder: str, **extra: Any) -> Iterator[dict[str, Any]]:
        token: dict[str, str] = {}
        while True:
            try:
                page = self._client.list_objects_v2(
                    Bucket=self._location.bucket, Prefix=prefix, MaxKeys=PAGE, **token, **extra
                )
            except Exception as error:
                raise self._error(error, folder) from None
            yield page
            following = page.get("NextContinuationToken") if page.get("IsTruncated") else None
            if not following:
                return
            token = {"ContinuationToken": following}

    def _error(self, error: Exception, key: str) -> StoreError:
        """The type of whatever boto3 raises; nothing else leaves this module."""
        return explain(error, self._location.bucket, key)


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _refuse_archived(answer: dict[str, Any], key: str) -> None:
    """Archived objects answer HEAD like any other, and no GET.

    Raises:
        Archived: where the object is in an archive and no restored copy of it is there.
    """
    where = str(answer.get("ArchiveStatus") or "")
    if not where and str(answer.get("StorageClass")) in ARCHIVES:
        where = str(answer["StorageClass"])
    if where and not re.search(r'ongoing-request="false"', str(answer.get("Restore") or "")):
        fault = {"Error": {"Code": "InvalidObjectState", "Message": where}}
        raise explain(ClientError(fault, "HeadObject"), "", key)  # type: ignore[arg-type]  # a double, or a union that the stub leaves out


def _stored(answer: dict[str, Any]) -> Iterator[Checksum]:
    for algorithm in ALGORITHMS:
        value = answer.get(f"Checksum{algorithm}")
        if isinstance(value, str) and value:
            yield Checksum.model_construct(algorithm=algorithm, value=value)


__all__ = ["ALGORITHMS", "Absent", "Archived", "S3Store", "client_for", "open_store"]
