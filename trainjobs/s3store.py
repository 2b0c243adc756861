"""A run below a prefix in S3 or a store that speaks its protocol.

Credentials come from the default chain of boto3 and of pyarrow, never from the sweep.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from trainjobs.s3copy import copy_object
from trainjobs.store import Entry, Store, StoreError, Upload, denied, probe_filesystem, unavailable
from trainsweep.contract.layout import Location

logger = logging.getLogger(__name__)

T = TypeVar("T")

_CHUNK = 1 << 20
CONNECT_SECONDS, REQUEST_SECONDS = 10, 60
"""Time-outs of both clients. pyarrow's own (1 s and 3 s) are too short for a busy store or node."""
SKEW_WARNING_SECONDS = 60.0
"""S3 refuses requests that are 15 minutes off; heartbeats look old long before."""
_DENIED = {
    "AccessDenied",
    "AllAccessDisabled",
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "InvalidToken",
    "AccountProblem",
    "403",
    "Forbidden",
    "XAdminUserNotFound",  # versitygw's word for an unknown key
}
_CHANGED = {"PreconditionFailed", "412", "ConditionalRequestConflict", "409"}
_ABSENT = {"NoSuchKey", "404", "NotFound"}


def attempts() -> int:
    """How often a request is tried: AWS's own variable `AWS_MAX_ATTEMPTS`, for boto3 and pyarrow alike; 8 by default."""
    text = os.environ.get("AWS_MAX_ATTEMPTS", "")
    return max(1, min(int(text), 50)) if text.isascii() and text.isdigit() else 8


class S3Store(Store):
    """Objects of one run in a bucket."""

    def __init__(self, location: Location, region: str | None, endpoint: str | None) -> None:
        super().__init__(location)
        self.region, self.endpoint = region, endpoint
        self._arn: str | None = None
        session = boto3.session.Session()
        self.effective_region = region or session.region_name or "us-east-1"
        options: dict[str, Any] = {
            "retries": {"mode": "standard", "max_attempts": attempts()},
            "connect_timeout": CONNECT_SECONDS,
            "read_timeout": REQUEST_SECONDS,
        }
        if endpoint:
            # Many S3-compatible stores know neither virtual hosts nor the newer trailing checksums.
            options |= {
                "s3": {"addressing_style": "path"},
                "request_checksum_calculation": "when_required",
                "response_checksum_validation": "when_required",
            }
        self.client: Any = session.client(
            "s3", region_name=self.effective_region, endpoint_url=endpoint, config=Config(**options)
        )

    def _call(self, what: str, call: Callable[[], T]) -> T:
        try:
            return call()
        except ClientError as error:
            raise self._explain(what, error) from None
        except BotoCoreError as error:
            name = type(error).__name__
            if name in (
                "NoCredentialsError",
                "PartialCredentialsError",
                "CredentialRetrievalError",
                "TokenRetrievalError",
            ):
                raise denied(
                    f"no usable credentials for {self.location.uri}: {error}. Set storage.serviceAccountName to one "
                    "with an identity that can write there, or give the pods credentials by training.envFrom"
                ) from None
            where = self.endpoint or f"S3 in {self.effective_region}"
            raise unavailable(f"{what}: {where} cannot be reached: {error}") from None

    def _explain(self, what: str, error: ClientError) -> StoreError:
        info = error.response.get("Error", {})
        code, text = str(info.get("Code", "")), str(info.get("Message", ""))
        meta = error.response.get("ResponseMetadata", {})
        home = meta.get("HTTPHeaders", {}).get("x-amz-bucket-region")
        bucket, status = self.location.bucket, meta.get("HTTPStatusCode")
        if code == "NoSuchBucket":
            return denied(f"bucket {bucket} does not exist: create it or correct storage.uri")
        if code in ("PermanentRedirect", "301", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException"):
            known = f"lies in {home}" if home else "lies in another region"
            return denied(f"bucket {bucket} {known}, not in {self.effective_region}: set storage.region")
        if code == "RequestTimeTooSkewed":
            return denied(f"{what} is refused: the clock of this node is too far off: correct its time (NTP)")
        if code in _DENIED or status == 403:
            return denied(
                f"{what} is denied ({code}){self._identity()}: {text or 'no reason given'} [{self.location.uri}]; check the "
                "pods' credentials (storage.serviceAccountName, or the class's credentialsSecret), the bucket's policy (one "
                "that demands an encryption header cannot be met: use the bucket's default encryption) and Requester Pays"
            )
        if code == "ExpiredToken":
            return unavailable(f"{what}: the credentials have expired")
        return unavailable(f"{what} failed ({code}, HTTP {status}): {text}")

    def _identity(self) -> str:
        """` as <ARN>` of whoever the requests are signed for, where AWS can be asked; else nothing."""
        if self.endpoint and "AWS_ENDPOINT_URL_STS" not in os.environ:
            return ""  # a store of another kind: AWS knows nothing of its keys
        if self._arn is None:
            try:
                config = Config(connect_timeout=3, read_timeout=3, retries={"max_attempts": 1})
                sts = boto3.session.Session().client("sts", region_name=self.effective_region, config=config)
                self._arn = str(sts.get_caller_identity()["Arn"])
            except (ClientError, BotoCoreError):
                self._arn = ""
        return f" as {self._arn}" if self._arn else ""

    def _key(self, key: str) -> str:
        return self.location.key(key)

    def get(self, key: str) -> bytes | None:
        """See Store."""
        found = self.tagged(key)
        return None if found is None else found[0]

    def tagged(self, key: str) -> tuple[bytes, str] | None:
        """See Store; the tag is the ETag."""

        def call() -> tuple[bytes, str] | None:
            try:
                answer = self.client.get_object(Bucket=self.location.bucket, Key=self._key(key))
            except ClientError as error:
                if error.response.get("Error", {}).get("Code") in _ABSENT:
                    return None
                raise
            return answer["Body"].read(), answer["ETag"]

        return self._call(f"reading {key}", call)

    def stream(self, key: str) -> Iterator[bytes]:
        """See Store."""
        try:
            answer = self.client.get_object(Bucket=self.location.bucket, Key=self._key(key))
            yield from answer["Body"].iter_chunks(_CHUNK)
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") in _ABSENT:
                raise FileNotFoundError(key) from None
            raise self._explain(f"reading {key}", error) from None
        except BotoCoreError as error:
            raise unavailable(f"reading {key}: {error}") from None

    def put(self, key: str, data: bytes) -> None:
        """See Store."""
        self._call(
            f"writing {key}",
            lambda: self.client.put_object(Bucket=self.location.bucket, Key=self._key(key), Body=data),
        )

    def _conditional(self, key: str, data: bytes, **condition: str) -> bool:
        def call() -> bool:
            try:
                self.client.put_object(Bucket=self.location.bucket, Key=self._key(key), Body=data, **condition)
            except ClientError as error:
                if error.response.get("Error", {}).get("Code") in _CHANGED:
                    return False
                raise
            return True

        return self._call(f"writing {key}", call)

    def create(self, key: str, data: bytes) -> bool:
        """See Store. A retry inside botocore may meet its own first write: equal bytes count as ours."""
        return self._conditional(key, data, IfNoneMatch="*") or self.get(key) == data

    def replace(self, key: str, data: bytes, tag: str) -> bool:
        """See Store."""
        return self._conditional(key, data, IfMatch=tag) or self.get(key) == data

    def _pages(self, prefix: str) -> Iterator[dict[str, Any]]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.location.bucket, Prefix=prefix)
        for page in pages:
            yield from page.get("Contents", [])

    def entries(self, prefix: str) -> list[Entry]:
        """See Store."""
        base, full = self._key(""), self._key(prefix.rstrip("/") + "/" if prefix else "")

        def call() -> list[Entry]:
            return [
                Entry(item["Key"].removeprefix(base), item["Size"], item["LastModified"].timestamp())
                for item in self._pages(full)
                if not item["Key"].endswith("/")  # pyarrow's directory markers
            ]

        return self._call(f"listing {prefix}", call)

    def _remove(self, full_keys: list[str]) -> None:
        for start in range(0, len(full_keys), 1000):
            batch = [{"Key": k} for k in full_keys[start : start + 1000]]
            request = {"Bucket": self.location.bucket, "Delete": {"Objects": batch, "Quiet": True}}
            answer = self._call("deleting objects", partial(self.client.delete_objects, **request))
            for error in answer.get("Errors", [])[:1]:
                raise denied(f"deleting {error.get('Key')} is refused: {error.get('Code')} {error.get('Message', '')}")

    def delete(self, keys: Iterable[str]) -> None:
        """See Store."""
        self._remove([self._key(k) for k in keys])

    def delete_tree(self, prefix: str) -> None:
        """See Store."""
        full = self._key(prefix.rstrip("/") + "/")
        self._remove(self._call(f"listing {prefix}", lambda: [item["Key"] for item in self._pages(full)]))

    def open_uploads(self) -> list[Upload]:
        """See Store. Needs s3:ListBucketMultipartUploads, which a training role may lack."""
        base = self._key("")

        def call() -> list[Upload]:
            pages = self.client.get_paginator("list_multipart_uploads").paginate(
                Bucket=self.location.bucket, Prefix=base
            )
            return [
                Upload(item["Key"].removeprefix(base), item["UploadId"], item["Initiated"].timestamp())
                for page in pages
                for item in page.get("Uploads", [])
                if item["Key"].startswith(base)  # a store that ignores the prefix must not lose its neighbours' uploads
            ]

        return self._call("listing open uploads (s3:ListBucketMultipartUploads)", call)

    def abort(self, upload: Upload) -> None:
        """See Store; one that has ended meanwhile is fine."""

        def call() -> None:
            try:
                self.client.abort_multipart_upload(
                    Bucket=self.location.bucket, Key=self._key(upload.key), UploadId=upload.id
                )
            except ClientError as error:
                if error.response.get("Error", {}).get("Code") not in ("NoSuchUpload", *_ABSENT):
                    raise

        self._call(f"aborting the upload of {upload.key} (s3:AbortMultipartUpload)", call)

    def copy_to(self, key: str, target: Store, name: str) -> None:
        """See Store. The copy is made by the server: nothing of it goes through this machine."""
        if not isinstance(target, S3Store):
            raise denied(f"a run in S3 is exported to S3, not to {target.location.uri}")
        source = (self.location.bucket, self._key(key))
        where = (target.location.bucket, target._key(name))

        def call() -> None:
            try:
                # Other stores do not all know the checksums that AWS makes of a copy.
                copy_object(self.client, source, where, checksums=not self.endpoint)
            except ClientError as error:
                if error.response.get("Error", {}).get("Code") in _ABSENT:
                    raise denied(f"{key} is gone: nothing can be copied") from None
                raise

        self._call(f"copying {key} to {target.location.uri}/{name}", call)

    def filesystem(self) -> tuple[Any, str]:
        """See Store.

        Without `check_directory_existence_before_creation` every parent of the prefix is written as a marker object,
        which a role limited to the prefix may not do. `allow_delayed_open` writes a small object with one request instead of
        three (measured: 1 PutObject for up to 6 MiB, and 8 ms for 32): a checkpoint and Tune's state are mostly small files.
        """
        from pyarrow.fs import AwsStandardS3RetryStrategy, S3FileSystem

        options: dict[str, Any] = {"region": self.effective_region}
        if self.endpoint:
            parts = urlsplit(self.endpoint)
            options |= {"endpoint_override": parts.netloc + parts.path.rstrip("/"), "scheme": parts.scheme}
        fs = S3FileSystem(
            check_directory_existence_before_creation=True,
            allow_delayed_open=True,
            connect_timeout=CONNECT_SECONDS,
            request_timeout=REQUEST_SECONDS,
            retry_strategy=AwsStandardS3RetryStrategy(max_attempts=attempts()),
            **options,
        )
        return fs, f"{self.location.bucket}/{self.location.prefix}"

    def preflight(self, probe: str) -> None:
        """See Store: boto3 first, for its clear errors, then the file system that Tune and Train will use."""
        bucket = self.location.bucket
        head = self._call(f"looking at bucket {bucket}", lambda: self._head())
        headers = head.get("ResponseMetadata", {}).get("HTTPHeaders", {})
        home = headers.get("x-amz-bucket-region")
        if home and home != self.effective_region and not self.endpoint:
            raise denied(f"bucket {bucket} lies in {home}, not in {self.effective_region}: set storage.region")
        self._compare_clocks(headers.get("date", ""))
        self.put(probe, b"trainsweep")
        if self.get(probe) != b"trainsweep":
            raise unavailable(f"{self.location.uri} reads back other bytes than were written")
        if self.create(probe, b"other"):
            raise denied(
                f"the store at {self.endpoint} overwrites an object in spite of If-None-Match: it cannot hold "
                "write-once markers, and two drivers could run at once. Use a store with conditional writes"
            )
        try:
            self.delete([probe])
        except StoreError as error:
            # Object Lock, or a role without s3:DeleteObject: everything works but tidying up.
            logger.warning("retention cannot delete anything: %s", error.message)
        fs, root = self.filesystem()
        probe_filesystem(fs, root, probe, self.location.uri)

    def _compare_clocks(self, date: str) -> None:
        try:
            skew = time.time() - parsedate_to_datetime(date).timestamp()
        except ValueError:
            return
        if abs(skew) > SKEW_WARNING_SECONDS:
            logger.warning("the clock of this node is %+.0f s off the store's: correct its time (NTP)", skew)

    def _head(self) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = self.client.head_bucket(Bucket=self.location.bucket)
        except ClientError as error:
            # HEAD has no body: a plain 404 here means the bucket.
            if str(error.response.get("Error", {}).get("Code")) in ("404", "NoSuchBucket", "NotFound"):
                error.response["Error"]["Code"] = "NoSuchBucket"
            raise
        return answer
