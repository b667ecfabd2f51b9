"""A run whose checkpoints are on S3, and everything that happens to them there."""

from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest

from gpu_core.decisions.model.attempts import EndReason
from tests.end_to_end.conftest import FLOWS, closed, processes_of
from tests.support.prefect_stack import ENGINE, Pool
from tests.support.s3_server import S3Server
from tests.support.waiting import wait_for

BUCKET = "checkpoints"

# Every second of counting is saved at once, and the newest few are kept.
POLICY = """
version: 1
prices: {a100-80gb: {on-demand: 3.6}}
virtual_gpus: {gpu_type: a100-80gb, count: 8}
preemption: {grace_period: 20s, min_runtime: 0s}
checkpoints: {interval: 1s, keep: 3}
"""


class Bucket:
    """The bucket, seen with plain boto3 and not with our own store."""

    def __init__(self, server: S3Server) -> None:
        values = server.environment
        self._s3 = boto3.client(
            "s3",
            endpoint_url=values["AWS_ENDPOINT_URL_S3"],
            aws_access_key_id=values["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=values["AWS_SECRET_ACCESS_KEY"],
            region_name=values["AWS_DEFAULT_REGION"],
        )
        self._s3.create_bucket(Bucket=BUCKET)

    def complete(self, run: str) -> list[str]:
        """The checkpoints of a run that have a manifest, the newest one last."""
        found = self._s3.list_objects_v2(Bucket=BUCKET, Prefix=f"team/{run}/").get("Contents", [])
        names = [item["Key"].rsplit("/", 1)[1] for item in found]
        return sorted(name.removesuffix(".json") for name in names if name.endswith(".json"))

    def flip_a_bit(self, run: str, checkpoint: str) -> None:
        """Damage a checkpoint as a disk does, unnoticed."""
        key = f"team/{run}/{checkpoint}.bin"
        content = bytearray(self._s3.get_object(Bucket=BUCKET, Key=key)["Body"].read())
        content[len(content) // 2] ^= 0b100
        self._s3.put_object(Bucket=BUCKET, Key=key, Body=bytes(content))


@pytest.fixture
def s3() -> Iterator[S3Server]:
    """A server of this test's own."""
    server = S3Server()
    yield server
    server.stop()


def test_a_run_outlives_its_store_its_processes_and_a_flipped_bit(new_pool, s3, tmp_path: Path):
    """Interrupted and resumed from S3: from the newest checkpoint that is as it was written."""
    pool, bucket = new_pool(POLICY), Bucket(s3)
    counting = tmp_path / "counting"
    counting.mkdir()
    run = pool.submit(
        pool.deploy(f"{FLOWS}:count_until_released", env=dict(s3.environment), **ENGINE),
        "counting",
        {"folder": str(counting)},
        checkpoint_uri=f"s3://{BUCKET}/team",
    )
    pool.start_worker()
    wait_for(lambda: len(bucket.complete(run)) >= 2, "two checkpoints are on S3")

    s3.stop()
    wait_for(lambda: logged(pool, run, "Failed to save checkpoint"), "a save failed")
    s3.start()
    known = set(bucket.complete(run))
    wait_for(lambda: len(set(bucket.complete(run)) - known) >= 2, "it saves again")
    assert pool.state(run) == "Running"

    # Without a worker nothing starts between the kill and the damage.
    pool.kill_worker()
    for process in processes_of(run):
        process.kill()
    *_, before, newest = bucket.complete(run)
    bucket.flip_a_bit(run, newest)
    pool.start_worker()
    wait_for((counting / "began-2").exists, "the second attempt began")
    (counting / "release").touch()
    pool.wait_until(run, "Completed")
    wait_for(lambda: closed(pool, run, 2), "both attempts are closed")

    first, second = pool.attempts(run)
    assert first.end_reason is EndReason.INTERRUPTED
    assert not first.is_charged_failure
    assert second.restored_from == f"{run}/{before}"
    assert int((counting / "began-2").read_text()) > 0
    assert logged(pool, run, newest), "that the newest one is damaged is said on the run's page"


def test_a_run_does_not_start_without_the_store_that_it_needs(new_pool, s3, tmp_path: Path):
    """It would find out hours later, at its first save."""
    pool = new_pool(POLICY)
    run = pool.submit(
        pool.deploy(f"{FLOWS}:count_until_released", env=dict(s3.environment), **ENGINE),
        "hopeless",
        {"folder": str(tmp_path)},
        checkpoint_uri="s3://no-such-bucket/team",
    )
    pool.start_worker()
    wait_for(lambda: closed(pool, run, 1), "one attempt")

    assert pool.state(run) == "Failed"
    assert not (tmp_path / "began-1").exists()
    assert "s3://no-such-bucket/team" in pool.message(run)
    assert "NoSuchBucket" in pool.message(run)
    assert ". Create the bucket or correct `checkpoint_uri`" in pool.message(run)


def logged(pool: Pool, run: str, text: str) -> bool:
    """Is this in the run's log on its page?"""
    return any(text in line for line in pool.logs(run))
