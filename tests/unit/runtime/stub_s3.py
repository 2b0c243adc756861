"""A client of S3 in memory that does what real stores do and no double shows: order, archives, parts, endless listings."""

from __future__ import annotations

import io
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError
from botocore.response import StreamingBody

from trainsweep.contract.layout import Location
from trainsweep.runtime.store_s3 import S3Store

PREFIX = "team/team-a/digits/v1-0123456789abcdef"


def refusal(
    code: str, status: int, operation: str = "GetObject", message: str = "words", **headers: str
) -> ClientError:
    answer: Any = {
        "Error": {"Code": code, "Message": message},
        "ResponseMetadata": {"HTTPStatusCode": status, "HTTPHeaders": headers},
    }
    return ClientError(answer, operation)


@dataclass
class StubS3:
    """Objects by full key; `told` adds to the answer to HEAD."""

    objects: dict[str, bytes] = field(default_factory=dict)
    told: dict[str, dict[str, Any]] = field(default_factory=dict)
    parts: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    attributes: bool = True
    """Knows GetObjectAttributes."""
    shuffle: random.Random | None = None
    page: int | None = None
    stray: Iterable[str] | None = None
    """Full keys that are listed without being held."""
    refuse: ClientError | None = None
    requests: list[tuple[str, str]] = field(default_factory=list)

    def put(self, key: str, data: bytes, **told: Any) -> None:
        self.objects[f"{PREFIX}/{key}"] = data
        self.told[f"{PREFIX}/{key}"] = told

    def store(self) -> S3Store:
        return S3Store(Location("s3", "bucket", PREFIX), self)

    def _ask(self, what: str, key: str) -> None:
        self.requests.append((what, key))
        if self.refuse is not None:
            raise self.refuse

    def head_object(self, *, Bucket: str, Key: str, PartNumber: int = 0, **_: Any) -> dict[str, Any]:  # noqa: N803  # botocore's own names
        self._ask("HEAD", Key)
        if Key not in self.objects:
            raise refusal("404", 404, "HeadObject", "Not Found")
        if PartNumber:
            part = self.parts[Key][PartNumber - 1]
            return {**part, "ContentLength": part["Size"], "PartsCount": len(self.parts[Key])}
        return {"ContentLength": len(self.objects[Key]), "ETag": '"1"', **self.told.get(Key, {})}

    def get_object(self, *, Bucket: str, Key: str, Range: str, **_: Any) -> dict[str, Any]:  # noqa: N803  # botocore's own names
        self._ask("GET", Key)
        if Key not in self.objects:
            raise refusal("NoSuchKey", 404)
        data, (start, end) = self.objects[Key], Range.removeprefix("bytes=").split("-")
        if int(start) >= len(data):
            raise refusal("InvalidRange", 416)
        piece = data[int(start) : int(end) + 1]
        return {
            "Body": StreamingBody(io.BytesIO(piece), len(piece)),  # type: ignore[arg-type]  # a double, or a union that the stub leaves out
            "ContentLength": len(piece),
            "ContentRange": f"bytes {start}-{int(start) + len(piece) - 1}/{len(data)}",
            "ETag": '"1"',
        }

    def get_object_attributes(self, *, Key: str, PartNumberMarker: int = 0, **_: Any) -> dict[str, Any]:  # noqa: N803  # botocore's own names
        self._ask("ATTRIBUTES", Key)
        if not self.attributes:
            raise refusal("NotImplemented", 501)
        known, step = self.parts[Key], 2
        page = known[PartNumberMarker : PartNumberMarker + step]
        more = PartNumberMarker + step < len(known)
        told = {"TotalPartsCount": len(known), "Parts": page, "IsTruncated": more}
        return {"ObjectParts": {**told, "NextPartNumberMarker": PartNumberMarker + step}}

    def list_objects_v2(self, **asked: Any) -> dict[str, Any]:
        self._ask("LIST", asked["Prefix"])
        token = asked.get("ContinuationToken")
        if token is None:
            token = f"t{len(self._open)}"
            size = self.page or asked["MaxKeys"]
            self._open[token] = self._pages(asked["Prefix"], asked.get("Delimiter", ""), size)
        page, more = next(self._open[token])
        name = "CommonPrefixes" if asked.get("Delimiter") else "Contents"
        return {name: page, "IsTruncated": more, "NextContinuationToken": token}

    _open: dict[str, Iterator[tuple[list[dict[str, Any]], bool]]] = field(default_factory=dict)

    def _pages(self, prefix: str, delimiter: str, size: int) -> Iterator[tuple[list[dict[str, Any]], bool]]:
        held: list[dict[str, Any]] = []
        keys = [k for k in self.objects if k.startswith(prefix)]
        if self.shuffle is not None:
            self.shuffle.shuffle(keys)
        seen: set[str] = set()
        for key in keys if self.stray is None else self._chained(keys, prefix):
            if delimiter:
                rest = key[len(prefix) :]
                if "/" not in rest:
                    continue
                name = prefix + rest.split("/", 1)[0] + "/"
                if self.stray is None:
                    if name in seen:
                        continue
                    seen.add(name)
                item: dict[str, Any] = {"Prefix": name}
            else:
                told = self.told.get(key, {})
                item = {"Key": key, "Size": len(self.objects.get(key, b"")), "StorageClass": told.get("StorageClass")}
            held.append(item)
            if len(held) == size:
                yield held, True
                held = []
        yield held, False

    def _chained(self, keys: list[str], prefix: str) -> Iterator[str]:
        yield from keys
        yield from (k for k in self.stray or () if k.startswith(prefix))

    def list_multipart_uploads(self, **_: Any) -> dict[str, Any]:
        return {}

    def list_object_versions(self, **_: Any) -> dict[str, Any]:
        return {}

    rules: list[dict[str, Any]] = field(default_factory=list)

    def get_bucket_lifecycle_configuration(self, **_: Any) -> dict[str, Any]:
        return {"Rules": self.rules}
