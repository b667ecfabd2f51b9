"""How much of a processor core does sampling GPUs take?

    python -m benchmarks.gpu_sampler [--gpus N] [--samples N | --attempt-s SECONDS]

Samples are taken as at 1 Hz, but without the pauses; the share is their processor time per second
of sampling. The driver is the tests' mock, so that only the sampler, nvidia-ml-py and the mock are
measured: `--real` samples the GPUs of this machine instead, with the driver's own time.
`--attempt-s` measures the program that samples one attempt, as its launcher starts it, at 1 Hz for
that long: with what it adds up, reads of processes and writes.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import psutil

from tests.support.nvml_driver import build_driver, driver_environment, gpu_lines

# What an H100 answers: every question is asked at every sample.
FIELDS = {
    "utilization": 93,
    "memory_used": 42_949_672_960,
    "temperature": 66,
    "slowdown": 87,
    "shutdown": 92,
    "power": 512_500,
    "power_limit": 700_000,
    "energy": 123_456_789,
    "sm_clock": 1980,
    "memory_clock": 2619,
    "reasons": 0,
    "ecc_corrected": 0,
    "ecc_uncorrected": 0,
    "remapped_corrected": 0,
    "sm_util": 71,
    "gpm_tx": 2,
    "gpm_rx": 1,
}


def measure(samples: int) -> str:
    """Sample the GPUs that the driver of this process has; one line with the result."""
    from gpu_core.adapters.nvml import GpuSampler

    sampler = GpuSampler()
    found = sampler.sample(datetime.now(UTC))  # initializes the driver
    began_s = time.process_time()
    for _ in range(samples):
        sampler.sample(datetime.now(UTC))
    per_sample_s = (time.process_time() - began_s) / samples
    sampler.close()
    return f"{len(found)} GPUs: {per_sample_s:.2%} of a core at 1 Hz (goal 0.5% with 8)"


def measure_attempt(gpu_ids: list[str], folder: Path, duration_s: float) -> str:
    """Run the sampler of an attempt on these GPUs; one line with the result."""
    program, warm_up_s = Path("gpu_core/worker/process/attempts/attempt_sampler.py"), 10.0
    command = [sys.executable, "-P", str(program), str(folder), "1", *gpu_ids]
    environment = os.environ | {"PREFECT_GPU_LAUNCHER_PID": str(os.getpid())}
    with subprocess.Popen(command, env=environment) as process:
        time.sleep(warm_up_s)
        sampler = psutil.Process(process.pid)
        before, began_s = sampler.cpu_times(), time.monotonic()
        time.sleep(duration_s)
        after, took_s = sampler.cpu_times(), time.monotonic() - began_s
        process.terminate()
    cpu_s = after.user + after.system - before.user - before.system
    part = cpu_s / took_s
    return f"{len(gpu_ids)} GPUs, {took_s:.0f} s: {part:.2%} of a core at 1 Hz (goal 0.5% with 8)"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--gpus", type=int, default=8, help="of the mock driver (8)")
    parser.add_argument("--samples", type=int, default=1000, help="how many are taken (1000)")
    parser.add_argument("--real", action="store_true", help="sample this machine's GPUs")
    parser.add_argument("--attempt-s", type=float, help="measure an attempt's sampler this long")
    options = parser.parse_args()
    if options.real:
        print(measure(options.samples))
        return
    with tempfile.TemporaryDirectory(prefix="gpu-sampler-") as folder:
        driver, machine = build_driver(Path(folder), "-O2"), Path(folder, "machine.txt")
        lines = [line for n in range(options.gpus) for line in gpu_lines(f"GPU-{n}", **FIELDS)]
        machine.write_text("".join(f"{line}\n" for line in lines))
        if options.attempt_s is not None:
            os.environ.update(driver_environment(driver, machine))
            gpu_ids = [f"GPU-{n}" for n in range(options.gpus)]
            print(measure_attempt(gpu_ids, Path(folder), options.attempt_s))
            return
        command = [sys.executable, "-m", "benchmarks.gpu_sampler", "--real"]
        subprocess.run(
            [*command, "--samples", str(options.samples)],
            env=os.environ | driver_environment(driver, machine),
            check=True,
        )


if __name__ == "__main__":
    main()
