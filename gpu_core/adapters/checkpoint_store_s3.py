"""Checkpoints in an S3 bucket, or in anything that speaks S3 (`AWS_ENDPOINT_URL_S3`)."""

import io
from typing import Any

import boto3
from botocore.exceptions import ClientError

from gpu_core.adapters.checkpoint_store import AlreadyCommitted

_SHA256 = "SHA256"


class S3Store:
    """A prefix of a bucket, reached with boto3's own credentials, region and endpoint.

    Every object arrives with a SHA-256 checksum that S3 compares before it accepts the object. An
    upload that a kill cuts short leaves nothing under its name; the parts of a large one stay
    until the bucket's rule for incomplete multipart uploads removes them.
    """

    def __init__(self, bucket: str, prefix: str) -> None:
        self._bucket = bucket
        self._prefix = f"{prefix}/" if prefix else ""
        self._client: Any = boto3.client("s3")

    def put(self, key: str, content: bytes) -> None:
        # Not put_object: that ends at 5 GB, and one connection is slow for large ones.
        self._client.upload_fileobj(
            io.BytesIO(content),
            self._bucket,
            self._prefix + key,
            ExtraArgs={"ChecksumAlgorithm": _SHA256},
        )

    def commit(self, key: str, content: bytes) -> None:
        try:
            self._client.put_object(
                Bucket=self._bucket,
                Key=self._prefix + key,
                Body=content,
                ChecksumAlgorithm=_SHA256,
                IfNoneMatch="*",
            )
        except ClientError as error:
            if error.response["Error"]["Code"] != "PreconditionFailed":
                raise
            # A retry finds its own first try, if only the answer to that was lost.
            if self.get(key) != content:
                raise AlreadyCommitted(self.uri(key)) from None

    def get(self, key: str) -> bytes:
        try:
            answer = self._client.get_object(Bucket=self._bucket, Key=self._prefix + key)
        except self._client.exceptions.NoSuchKey:
            raise FileNotFoundError(self.uri(key)) from None
        content: bytes = answer["Body"].read()
        return content

    def names(self, folder: str) -> tuple[str, ...]:
        start = f"{self._prefix}{folder}/"
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=start
        )
        return tuple(
            entry["Key"].removeprefix(start) for page in pages for entry in page.get("Contents", ())
        )

    def delete(self, key: str) -> None:
        self._client.delete_object(Bucket=self._bucket, Key=self._prefix + key)

    def uri(self, key: str) -> str:
        return f"s3://{self._bucket}/{self._prefix}{key}"
