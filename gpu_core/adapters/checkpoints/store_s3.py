"""Checkpoints in an S3 bucket, or in anything that speaks S3 (`AWS_ENDPOINT_URL_S3`)."""

import hashlib
from base64 import b64encode
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.session import get_session

from gpu_core.adapters.aws.s3_multipart import CONNECTIONS, SHA256, MultipartUploads
from gpu_core.adapters.checkpoints.store import AlreadyCommitted
from gpu_core.decisions.checkpoints.payload import Payload

# Another writer of the same name was faster, or is at it; both say that ours did not happen.
_LOST_RACE = ("PreconditionFailed", "ConditionalRequestConflict")

# The name in botocore's configuration (`AWS_METADATA_SERVICE_NUM_ATTEMPTS`), 1 by default.
_METADATA_ATTEMPTS = "metadata_service_num_attempts"


class S3Store:
    """A prefix of a bucket, reached with boto3's own credentials, region and endpoint.

    Every object and every part arrives with a SHA-256 checksum that S3 compares before it accepts
    them. An upload that a kill cuts short leaves nothing under its name; its parts stay until a
    later attempt of the run aborts them.
    """

    def __init__(self, bucket: str, prefix: str) -> None:
        self._bucket = bucket
        self._prefix = f"{prefix}/" if prefix else ""
        self._client: Any = _client(Config(max_pool_connections=CONNECTIONS + 2))
        self._multipart = MultipartUploads(self._client, bucket)

    def put(self, key: str, content: bytes) -> None:
        self._put(key, content)

    def commit(self, key: str, content: bytes) -> None:
        try:
            self._put(key, content, IfNoneMatch="*")
        except ClientError as error:
            if _code(error) not in _LOST_RACE:
                raise
            # A retry finds its own first try, if only the answer to that was lost.
            if self.get(key) != content:
                raise AlreadyCommitted(self.uri(key)) from None

    def upload(self, key: str, payload: Payload) -> None:
        if len(payload.parts) == 1:
            return self.commit(key, bytes(payload.content))
        try:
            self._multipart.upload(self._prefix + key, payload)
        except (BotoCoreError, ClientError) as error:
            # Completing may take longer than its answer was waited for; then it has happened.
            is_there = self._holds(key, payload)
            if not is_there and _code(error) not in _LOST_RACE:
                raise
            self.abort(key)
            if not is_there:
                raise AlreadyCommitted(self.uri(key)) from None
        return None

    def unfinished(self, folder: str) -> tuple[str, ...]:
        start = f"{self._prefix}{folder}/"
        return tuple(key.removeprefix(start) for key, _ in self._multipart.unfinished(start))

    def abort(self, key: str) -> None:
        self._multipart.abort(self._prefix + key)

    def get(self, key: str) -> bytes:
        return self._get(key)

    def size_bytes(self, key: str) -> int:
        size_bytes: int = self._head(key)["ContentLength"]
        return size_bytes

    def get_range(self, key: str, offset: int, size_bytes: int) -> bytes:
        if size_bytes == 0:
            return b""  # S3 has no word for an empty range
        try:
            return self._get(key, Range=f"bytes={offset}-{offset + size_bytes - 1}")
        except ClientError as error:
            if _code(error) != "InvalidRange":
                raise
            return b""  # it ends before

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

    def free_bytes(self) -> int | None:
        return None

    def uri(self, key: str) -> str:
        return f"s3://{self._bucket}/{self._prefix}{key}"

    def _put(self, key: str, content: bytes, **conditions: str) -> None:
        self._client.put_object(
            Bucket=self._bucket,
            Key=self._prefix + key,
            Body=content,
            ChecksumAlgorithm=SHA256,
            ChecksumSHA256=b64encode(hashlib.sha256(content).digest()).decode(),
            **conditions,
        )

    def _get(self, key: str, **what: str) -> bytes:
        try:
            answer = self._client.get_object(Bucket=self._bucket, Key=self._prefix + key, **what)
        except self._client.exceptions.NoSuchKey:
            raise FileNotFoundError(self.uri(key)) from None
        content: bytes = answer["Body"].read()
        return content

    def _head(self, key: str, **what: str) -> Any:
        try:
            return self._client.head_object(Bucket=self._bucket, Key=self._prefix + key, **what)
        except ClientError as error:
            if _code(error) != "404":
                raise
            raise FileNotFoundError(self.uri(key)) from None

    def _holds(self, key: str, payload: Payload) -> bool:
        """Is this very payload there? Judged by size and checksum, not by reading all of it."""
        try:
            head = self._head(key, ChecksumMode="ENABLED")
        except FileNotFoundError:
            return False
        # S3 adds the number of parts: "<checksum>-125".
        checksum = head.get("ChecksumSHA256", "").partition("-")[0]
        want_checksum = b64encode(bytes.fromhex(payload.sha256)).decode()
        return bool(head["ContentLength"] == payload.size_bytes and checksum == want_checksum)


def _client(config: Config) -> Any:
    """A client of the flow's own default session, or one that asks an instance's metadata service
    repeatedly.

    By default a single request that gets no answer looks as if there were no credentials, which
    ends a run for good.
    """
    if boto3.DEFAULT_SESSION is not None:
        return boto3.client("s3", config=config)
    core = get_session()
    if core.get_config_variable(_METADATA_ATTEMPTS) == 1:
        core.set_config_variable(_METADATA_ATTEMPTS, 3)
    return boto3.Session(botocore_session=core).client("s3", config=config)


def _code(error: BotoCoreError | ClientError) -> str:
    """S3's name of what went wrong; empty where S3 did not answer."""
    if isinstance(error, BotoCoreError):
        return ""
    return str(error.response.get("Error", {}).get("Code", ""))
