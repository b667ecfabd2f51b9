"""How long does a save stall a training, and how fast does it travel?

`python -m benchmarks.checkpoint_upload [--mb 2000] [--saves 4] [--json]`

A local S3 server (moto, in a process of its own) takes everything. First boto3 uploads the same
bytes from memory with its transfer manager, with each of several settings; then a run saves a
state of float32 arrays in the background, twice as many saves as are counted. The stall is the
time in `save`, the upload lasts until `wait` returns. The share of boto3's best is what counts:
the server, not the network, is the limit here.
"""

import argparse
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import boto3
import botocore.session
import numpy
from boto3.s3.transfer import TransferConfig
from botocore.config import Config

from gpu_core.decisions.requests.runs.run_context import RunContext
from gpu_core.runtime import checkpointing

BUCKET = "checkpoints"
MB = 1_000_000
_MIB = 1024 * 1024
# boto3's defaults are parts of 8 MiB and ten threads.
SETTINGS = ((8, 10), (16, 8), (64, 4))
_READ_TIMEOUT_S = 900

_SERVER = """
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
host, port = server.get_host_and_port()
print(f"http://{host}:{port}", flush=True)
input()
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One measurement."""

    mb: int
    boto3_mb_per_s: dict[str, float]
    """By part size and threads."""
    mb_per_s: list[float]
    """Of each save, until it was safe."""
    stall_s: list[float]
    stall_processor_s: list[float]
    """What of it was work: the rest waited for others who use the machine."""
    copy_gb_per_s: float
    """What this machine copies in memory, warm: the bound of the stall."""

    @property
    def share_of_boto3(self) -> float:
        """Our median by boto3's best."""
        return sorted(self.mb_per_s)[len(self.mb_per_s) // 2] / max(self.boto3_mb_per_s.values())


def main() -> None:
    """Print the measurement."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--mb", type=int, default=2_000, help="the size of the state")
    parser.add_argument("--saves", type=int, default=4)
    parser.add_argument("--json", action="store_true", help="one JSON object")
    arguments = parser.parse_args()
    result = measure(arguments.mb, arguments.saves)
    if arguments.json:
        print(json.dumps(asdict(result)))
        return
    for setting, mb_per_s in result.boto3_mb_per_s.items():
        print(f"boto3, {setting:20}{mb_per_s:8.0f} MB/s")
    saves = zip(result.stall_s, result.stall_processor_s, result.mb_per_s, strict=True)
    for number, (stall_s, processor_s, mb_per_s) in enumerate(saves, start=1):
        print(
            f"save {number}: stall {stall_s:6.3f} s, of it {processor_s:6.3f} s of processor time, "
            f"{mb_per_s:8.0f} MB/s until it was safe"
        )
    print(f"copy in memory: {result.copy_gb_per_s:.1f} GB/s")
    print(f"share of boto3's best: {100 * result.share_of_boto3:.0f}%")


def measure(mb: int, saves: int) -> Result:
    """boto3's transfer manager and our saves, on a server of their own each."""
    state = {f"layer{n}": numpy.random.default_rng(n).random(mb * MB // 32, "f4") for n in range(8)}
    raw = b"".join(layer.tobytes() for layer in state.values())
    boto3_mb_per_s = {}
    for part_mib, threads in SETTINGS:
        with s3_server():
            setting = f"{part_mib} MiB x {threads}"
            boto3_mb_per_s[setting] = len(raw) / MB / _upload_s(raw, part_mib, threads)
    del raw
    copy_gb_per_s = _copy_gb_per_s(state)
    with s3_server(), tempfile.TemporaryDirectory() as folder:
        measured = [*_saves(state, saves, Path(folder))]
    return Result(
        mb=mb,
        boto3_mb_per_s=boto3_mb_per_s,
        mb_per_s=[mb_per_s for _, _, mb_per_s in measured],
        stall_s=[stall_s for stall_s, _, _ in measured],
        stall_processor_s=[processor_s for _, processor_s, _ in measured],
        copy_gb_per_s=copy_gb_per_s,
    )


@contextmanager
def s3_server() -> Iterator[None]:
    """A server with an empty bucket, which boto3 finds by itself."""
    server = subprocess.Popen(
        [sys.executable, "-c", _SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    os.environ |= {
        "AWS_ENDPOINT_URL_S3": server.stdout.readline().strip(),
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    # moto takes minutes to complete a large upload where others use the machine. boto3 would ask
    # again after one minute, and moto answers one of two such requests at the same time with 500.
    session = botocore.session.get_session()
    session.set_default_client_config(Config(read_timeout=_READ_TIMEOUT_S))
    boto3.setup_default_session(botocore_session=session)
    boto3.client("s3").create_bucket(Bucket=BUCKET)
    try:
        yield
    finally:
        server.kill()
        server.communicate()


def _upload_s(raw: bytes, part_mib: int, threads: int) -> float:
    config = TransferConfig(
        multipart_chunksize=part_mib * _MIB, multipart_threshold=part_mib * _MIB,
        max_concurrency=threads,
    )  # fmt: skip
    client = boto3.client("s3")
    began_s = time.perf_counter()
    client.upload_fileobj(io.BytesIO(raw), BUCKET, "plain", Config=config)
    return time.perf_counter() - began_s


def _copy_gb_per_s(state: dict[str, numpy.ndarray]) -> float:
    layer = next(iter(state.values()))
    target = numpy.zeros_like(layer)
    best_s = min(_timed_copy_s(layer, target) for _ in range(5))
    return layer.nbytes / 1e9 / best_s


def _timed_copy_s(source: numpy.ndarray, target: numpy.ndarray) -> float:
    began_s = time.perf_counter()
    numpy.copyto(target, source)
    return time.perf_counter() - began_s


def _saves(
    state: dict[str, numpy.ndarray], saves: int, folder: Path
) -> Iterator[tuple[float, float, float]]:
    """Stall in s, its processor time in s, and MB/s of each save."""
    context = RunContext(
        flow_run_id="bench",
        attempt=1,
        attempt_id="bench-1",
        run_dir=str(folder),
        checkpoint_uri=f"s3://{BUCKET}/bench",
        checkpoints_kept=1,
    )
    os.environ |= context.to_environment()
    size_mb = sum(layer.nbytes for layer in state.values()) / MB
    with checkpointing(background=True) as ckpt:
        for _ in range(saves):
            began_s, worked_s = time.perf_counter(), time.process_time()
            ckpt.save(state)
            stall_s, processor_s = time.perf_counter() - began_s, time.process_time() - worked_s
            if ckpt.wait() is None:
                raise RuntimeError("the server did not take the checkpoint")
            upload_s = time.perf_counter() - began_s - stall_s
            yield stall_s, processor_s, size_mb / upload_s


if __name__ == "__main__":
    main()
