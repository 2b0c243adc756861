"""The store over S3 and what speaks its protocol, by boto3: explicit time-outs, few retries, default credentials."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    NoCredentialsError,
    ParamValidationError,
    PartialCredentialsError,
)

from trainsweep.contract.documents import Checksum
from trainsweep.contract.layout import Location, StorageURIError, relative_key
from trainsweep.runtime.store import (
    CHUNK,
    Absent,
    Denied,
    Entry,
    FileStore,
    Info,
    Store,
    StoreError,
    TooLarge,
    Unavailable,
    WrongRegion,
    full_key,
)

CONNECT_SECONDS, READ_SECONDS = 5, 15
POOL = 16
PAGE = 1000
ABANDONED_SECONDS = 3600
_ALGORITHMS = ("SHA256", "SHA1", "CRC32", "CRC32C", "CRC64NVME")
_ABSENT = frozenset({"404", "NoSuchKey", "NotFound"})
_PASSING = frozenset(
    {"ExpiredToken", "RequestTimeTooSkewed", "RequestTimeout", "SlowDown", "TooManyRequests", "Throttling"}
)
_log = logging.getLogger(__name__)
_clients_lock = threading.Lock()


@lru_cache(maxsize=64)
def _make_client(region: str, endpoint: str) -> Any:
    config = Config(
        connect_timeout=CONNECT_SECONDS,
        read_timeout=READ_SECONDS,
        retries={"mode": "standard", "total_max_attempts": 3},
        max_pool_connections=POOL,
        # A store behind an endpoint rarely answers to bucket.host names.
        s3={"addressing_style": "path"} if endpoint else {},
        # Other stores do not know the checksums that botocore asks for by default.
        request_checksum_calculation="when_required" if endpoint else "when_supported",
        response_checksum_validation="when_required",
    )
    session = boto3.session.Session()  # the default session is not thread-safe
    return session.client("s3", region_name=region or None, endpoint_url=endpoint or None, config=config)


def client_for(region: str, endpoint: str) -> Any:
    """The client for a region and an endpoint; made once, safe to share between threads."""
    with _clients_lock:
        try:
            return _make_client(region, endpoint)
        except (BotoCoreError, ValueError) as error:
            raise Denied(
                f"no client for endpoint {endpoint or 'of AWS'}, region {region or 'unset'}: {error}"
            ) from None


def open_store(location: Location, region: str = "", endpoint: str = "") -> Store:
    """The store of a run's prefix.

    Raises:
        StoreError: where no client can be made.
    """
    if location.scheme == "file":
        return FileStore(location)
    return S3Store(location, client_for(region, endpoint))


class S3Store:
    """Reads below one prefix of one bucket."""

    def __init__(self, location: Location, client: Any) -> None:
        if location.scheme != "s3":
            raise StorageURIError(f"not an s3:// location: {location.uri}")
        self._location, self._client = location, client

    @property
    def location(self) -> Location:
        """The run's prefix."""
        return self._location

    def get(self, key: str, limit: int) -> bytes:
        """See `Store`. Only the first bytes are asked for: a huge object costs no more than a small one."""
        where = full_key(self._location, key)
        try:
            answer = self._client.get_object(Bucket=self._location.bucket, Key=where, Range=f"bytes=0-{limit}")
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

    def listing(self, folder: str, limit: int) -> list[Entry]:
        """See `Store`."""
        prefix = full_key(self._location, folder) + "/"
        cut = len(self._location.prefix) + 1 if self._location.prefix else 0
        found: list[Entry] = []
        for page in self._pages(prefix, folder):
            for item in page.get("Contents") or ():
                if str(item["Key"]).endswith("/"):
                    continue
                key = str(item["Key"])[cut:]
                try:
                    found.append(Entry(relative_key(key), int(item["Size"])))
                except StorageURIError:
                    continue  # no key that a receipt could name
                if len(found) > limit:
                    raise TooLarge(f"{folder} holds more than {limit} objects")
        return found

    def folders(self, folder: str, limit: int) -> list[str]:
        """See `Store`."""
        prefix = full_key(self._location, folder) + "/"
        found: list[str] = []
        for page in self._pages(prefix, folder, Delimiter="/"):
            found += [str(p["Prefix"])[len(prefix) :].rstrip("/") for p in page.get("CommonPrefixes") or ()]
            if len(found) > limit:
                raise TooLarge(f"{folder} holds more than {limit} folders")
        return sorted(f for f in found if f)

    def head(self, key: str) -> Info:
        """See `Store`."""
        try:
            answer = self._client.head_object(
                Bucket=self._location.bucket, Key=full_key(self._location, key), ChecksumMode="ENABLED"
            )
        except StoreError:
            raise
        except Exception as error:
            raise self._error(error, key) from None
        return Info(int(answer["ContentLength"]), tuple(_full_checksums(answer)))

    def chunks(self, key: str) -> Iterator[bytes]:
        """See `Store`."""
        try:
            answer = self._client.get_object(Bucket=self._location.bucket, Key=full_key(self._location, key))
            # closing(): as a context manager a StreamingBody gives the raw response, which knows no iter_chunks.
            with closing(answer["Body"]) as body:
                yield from body.iter_chunks(CHUNK)
        except StoreError:
            raise
        except Exception as error:
            raise self._error(error, key) from None

    def uploading(self, folder: str) -> set[str]:
        """See `Store`. Older ones were abandoned; not every store or role can list them, which is no error."""
        prefix = full_key(self._location, folder) + "/"
        cut = len(self._location.prefix) + 1 if self._location.prefix else 0
        try:
            page = self._client.list_multipart_uploads(Bucket=self._location.bucket, Prefix=prefix)
        except Exception as error:
            _log.debug("uploads below %s: %s", folder, error)
            return set()
        now = datetime.now(UTC)
        return {
            str(u["Key"])[cut:]
            for u in page.get("Uploads") or ()
            if (now - u["Initiated"]).total_seconds() < ABANDONED_SECONDS
        }

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
        bucket = self._location.bucket
        if isinstance(error, StoreError):
            return error
        if isinstance(error, ClientError):
            return _client_error(error, bucket, key)
        if isinstance(error, (NoCredentialsError, PartialCredentialsError)):
            return Denied(
                "the operator has no credentials for the store: give its ServiceAccount an identity that can read it"
            )
        if isinstance(error, (CredentialRetrievalError, BotoCoreError)) and not isinstance(error, ParamValidationError):
            return Unavailable(f"{key}: {error}")
        if isinstance(error, ParamValidationError):
            return Denied(f"{key}: {error}")
        return Unavailable(f"{key}: {type(error).__name__}: {error}")


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _client_error(error: ClientError, bucket: str, key: str) -> StoreError:
    code = _code(error)
    meta = error.response.get("ResponseMetadata", {})
    status = int(meta.get("HTTPStatusCode") or 0)
    words = str(error.response.get("Error", {}).get("Message") or code)[:300]
    if code == "NoSuchBucket":
        return Denied(f"bucket {bucket} does not exist: create it, or correct spec.storage.uri")
    if status == 301 or code in ("PermanentRedirect", "AuthorizationHeaderMalformed", "301"):
        headers = meta.get("HTTPHeaders") or {}
        region = str(error.response.get("Error", {}).get("Region") or headers.get("x-amz-bucket-region") or "")
        return WrongRegion(bucket, region)
    if code in _ABSENT or status == 404:
        return Absent(f"{key} is not there")
    if code in _PASSING or status >= 500 or status == 429:
        return Unavailable(f"{key}: {code} {words}")
    if status in (401, 403) or code in ("InvalidAccessKeyId", "SignatureDoesNotMatch", "AccessDenied"):
        return Denied(f"the store refuses to let the operator read {key} in bucket {bucket}: {code} {words}")
    return Unavailable(f"{key}: HTTP {status} {code} {words}")


def _full_checksums(answer: dict[str, Any]) -> Iterator[Checksum]:
    composite = answer.get("ChecksumType") == "COMPOSITE"
    for algorithm in _ALGORITHMS:
        value = answer.get(f"Checksum{algorithm}")
        # A composite checksum ("...-7") is one over parts: it cannot be compared with one over bytes.
        if isinstance(value, str) and not composite and "-" not in value:
            yield Checksum(algorithm=algorithm, value=value)
