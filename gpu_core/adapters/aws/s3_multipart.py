"""Uploads to S3 in parts: several at once, checked one by one, continued where they stopped."""

import hashlib
from base64 import b64encode
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from botocore.exceptions import ClientError

from gpu_core.decisions.checkpoints.payload import Payload, PayloadPart

SHA256 = "SHA256"

CONNECTIONS = 8
"""Parts that travel at once. S3 gives about 90 MB/s to one connection (its performance guide,
"Optimizing Amazon S3 performance", 2024), so this fills 5 Gbit/s."""


class MultipartUploads:
    """The uploads to one bucket.

    Args:
        client: boto3's S3 client.
    """

    def __init__(self, client: Any, bucket: str) -> None:
        self._client = client
        self._bucket = bucket

    def upload(self, key: str, payload: Payload) -> None:
        """Keep the payload under an unused name.

        When it fails, the parts that have arrived stay, and the next upload to this name keeps
        those that are the same.

        Raises:
            botocore.exceptions.ClientError: S3 refused; `PreconditionFailed`: the name is taken.
        """
        upload_id = self._unfinished_id(key)
        there: Mapping[int, Mapping[str, Any]] = {}
        if upload_id is None:
            upload_id = self._client.create_multipart_upload(
                Bucket=self._bucket, Key=key, ChecksumAlgorithm=SHA256
            )["UploadId"]
        else:
            there = self._parts_there(key, upload_id)

        def send(part: PayloadPart) -> dict[str, object]:
            return self._send(key, upload_id, part, there.get(part.number))

        with ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="checkpoint-part") as pool:
            try:
                sent = list(pool.map(send, payload.parts))
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        self._client.complete_multipart_upload(
            Bucket=self._bucket,
            Key=key,
            UploadId=upload_id,
            IfNoneMatch="*",
            MultipartUpload={"Parts": sent},
        )

    def unfinished(self, prefix: str) -> Iterator[tuple[str, str]]:
        """Key and id of each upload under the prefix that was neither completed nor aborted."""
        pages = self._client.get_paginator("list_multipart_uploads").paginate(
            Bucket=self._bucket, Prefix=prefix
        )
        for page in pages:
            for upload in page.get("Uploads", ()):
                yield upload["Key"], upload["UploadId"]

    def abort(self, key: str) -> None:
        """Delete the parts of all unfinished uploads to this key."""
        for found, upload_id in self.unfinished(key):
            if found == key:
                self._abort(key, upload_id)

    def _abort(self, key: str, upload_id: str) -> None:
        try:
            self._client.abort_multipart_upload(Bucket=self._bucket, Key=key, UploadId=upload_id)
        except ClientError as error:
            if error.response["Error"]["Code"] != "NoSuchUpload":
                raise

    def _unfinished_id(self, key: str) -> str | None:
        ids = [upload_id for found, upload_id in self.unfinished(key) if found == key]
        return ids[-1] if ids else None

    def _parts_there(self, key: str, upload_id: str) -> dict[int, Mapping[str, Any]]:
        pages = self._client.get_paginator("list_parts").paginate(
            Bucket=self._bucket, Key=key, UploadId=upload_id
        )
        return {part["PartNumber"]: part for page in pages for part in page.get("Parts", ())}

    def _send(
        self, key: str, upload_id: str, part: PayloadPart, there: Mapping[str, Any] | None
    ) -> dict[str, object]:
        checksum = b64encode(part.digest).decode()
        if there is not None and _is_same(part, checksum, there):
            return _receipt(part, checksum, there["ETag"])
        answer = self._client.upload_part(
            Bucket=self._bucket,
            Key=key,
            UploadId=upload_id,
            PartNumber=part.number,
            Body=bytes(part.content),  # boto3 takes no memoryview, and reads files in small bites
            ChecksumAlgorithm=SHA256,
            ChecksumSHA256=checksum,
        )
        return _receipt(part, checksum, answer["ETag"])


def _is_same(part: PayloadPart, checksum: str, there: Mapping[str, Any]) -> bool:
    """Does the store have this very part? By its checksum, or by MD5 where it has none."""
    if there["Size"] != part.content.nbytes:
        return False
    stored = there.get("ChecksumSHA256")
    if stored is not None:
        return bool(stored == checksum)
    md5 = hashlib.md5(part.content, usedforsecurity=False).hexdigest()
    return bool(there["ETag"].strip('"') == md5)


def _receipt(part: PayloadPart, checksum: str, etag: str) -> dict[str, object]:
    return {"PartNumber": part.number, "ETag": etag, "ChecksumSHA256": checksum}
