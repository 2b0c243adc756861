"""Copies inside S3: the server moves the bytes, in one request or, above its limit of 5 GiB, part by part."""

from __future__ import annotations

from typing import Any

COPY_LIMIT = 5 * 2**30
"""Largest object that CopyObject takes."""
PART = 2**30
MOST_PARTS = 10_000


def copy_object(
    client: Any,
    source: tuple[str, str],
    target: tuple[str, str],
    *,
    checksums: bool,
    limit: int = COPY_LIMIT,
    part: int = PART,
) -> None:
    """Copies one object within S3, always of one version of it.

    Args:
        client: of boto3.
        source: bucket and key.
        target: bucket and key.
        checksums: ask for a CRC-32 over the whole copy, which a manifest has too: then nobody has to read it back.
        limit: largest object that is copied in one request.
        part: bytes of one part beyond that.

    Raises:
        ClientError, BotoCoreError: as the client does; what was begun is aborted.
    """
    head = client.head_object(Bucket=source[0], Key=source[1])
    size = int(head["ContentLength"])
    origin = {"CopySource": {"Bucket": source[0], "Key": source[1]}, "CopySourceIfMatch": head["ETag"]}
    where = {"Bucket": target[0], "Key": target[1]}
    if size <= limit:
        client.copy_object(**where, **origin, **({"ChecksumAlgorithm": "CRC32"} if checksums else {}))
        return
    part = max(part, -(-size // MOST_PARTS))
    wanted = {"ChecksumAlgorithm": "CRC32", "ChecksumType": "FULL_OBJECT"} if checksums else {}
    upload = client.create_multipart_upload(**where, **wanted)["UploadId"]
    try:
        done = []
        for number, start in enumerate(range(0, size, part), 1):
            end = min(start + part, size) - 1
            copied = client.upload_part_copy(
                **where, **origin, UploadId=upload, PartNumber=number, CopySourceRange=f"bytes={start}-{end}"
            )["CopyPartResult"]
            told = {"PartNumber": number, "ETag": copied["ETag"]}
            if checksums and copied.get("ChecksumCRC32"):
                told["ChecksumCRC32"] = copied["ChecksumCRC32"]
            done.append(told)
        whole = {"ChecksumType": "FULL_OBJECT"} if checksums else {}
        client.complete_multipart_upload(**where, UploadId=upload, MultipartUpload={"Parts": done}, **whole)
    except BaseException:
        client.abort_multipart_upload(**where, UploadId=upload)
        raise
