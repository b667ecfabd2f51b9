"""Idle runs among generated ones: who waits is never flagged, who holds GPUs for nothing always.

The serving pods follow what is published of Alibaba's cluster-trace-v2026-GenAI: 143 pods over 22.8
hours, a mean duty of 7% in bursts, two thirds of the samples at 0.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from gpu_core.decisions.policy.idle import IdlePolicy
from gpu_core.decisions.telemetry.activity import RunActivity
from gpu_core.decisions.telemetry.idle_state import RunUse, idle_state
from gpu_core.decisions.telemetry.samples import GpuSample
from tests.support.examples import examples

START = datetime(2026, 11, 25, tzinfo=UTC)
POLICY = IdlePolicy()
MINUTES = round(22.8 * 60)
SERVING = examples(143)
_BYTES = 25 * 2**30


@dataclass(frozen=True)
class Minute:
    """What a generated run does in a minute."""

    duty: float = 0.0
    cores: float = 0.01
    io: float = 1000.0
    touched: bool = True
    stepped: bool = False
    used: bool = False


def bursts(rng: random.Random, mean_duty: float) -> Iterator[float]:
    """Requests in bursts, with pauses that make up this mean duty."""
    while True:
        level, length = rng.uniform(0.2, 0.9), rng.expovariate(1 / 6) + 1
        for _ in range(round(length)):
            yield level
        # A long tail: pauses over half an hour are common.
        pause = length * level / mean_duty - length
        for _ in range(round(pause * rng.lognormvariate(-0.5, 1.0))):
            yield 0.0 if rng.random() < 0.9 else rng.uniform(0, 0.04)


def serving(rng: random.Random) -> Iterator[Minute]:
    for duty in bursts(rng, 0.07):
        yield Minute(duty=duty, cores=0.01 + duty, used=duty > 0.05)


def data_stalls(rng: random.Random) -> Iterator[Minute]:
    """Work, then up to two hours of waiting for data: by processor, by reading, or in steps."""
    while True:
        yield from (Minute(duty=0.8, stepped=True) for _ in range(rng.randint(5, 60)))
        how = rng.choice(["processor", "reading", "steps"])
        for minute in range(rng.randint(35, 120)):
            yield Minute(
                cores=0.4 if how == "processor" else 0.02,
                io=4e6 if how == "reading" else 1000.0,
                stepped=how == "steps" and minute % 20 == 0,
            )


def barriers(rng: random.Random) -> Iterator[Minute]:
    """Work, then waiting for others: a collective spins on the GPU, or on the processor."""
    while True:
        yield from (Minute(duty=0.9, stepped=True) for _ in range(rng.randint(10, 90)))
        spins = rng.random() < 0.5
        for _ in range(rng.randint(35, 90)):
            yield Minute(duty=1.0) if spins else Minute(cores=1.0)


def without_work(rng: random.Random) -> Iterator[Minute]:
    """It never touches its GPU, or works for a while and then does nothing for ever."""
    if rng.random() < 0.5:
        for _ in range(rng.randint(1, 300)):
            yield Minute(duty=rng.uniform(0.3, 1), cores=1.0, stepped=True)
        while True:
            yield Minute(duty=rng.uniform(0, 0.03))
    while True:
        yield Minute(touched=False)


@dataclass(frozen=True)
class Watched:
    """What became of a generated run."""

    is_flagged: bool
    is_under_threshold: bool
    """The plain threshold flags it: at most 1% in each of 30 minutes in a row."""
    mean_duty: float


def watched(
    generator: Callable[[random.Random], Iterator[Minute]],
    seed: int,
    workload_type: str,
    *,
    says_use: bool = True,
) -> Watched:
    activity, use, flagged, quiet, under, total = (
        *(RunActivity.of(("GPU-a",), START), RunUse()),
        *(False, 0, False, 0.0),
    )
    for number, minute in zip(range(1, MINUTES + 1), generator(random.Random(seed)), strict=False):
        now = START + timedelta(minutes=number)
        sample = GpuSample(
            gpu_id="GPU-a",
            at=now,
            utilization_ratio=minute.duty,
            power_w=70 + 500 * minute.duty,
            power_limit_w=700.0,
            memory_used_bytes=_BYTES if minute.touched else 2**29,
            process_ids=(17,) if minute.touched else (),
        )
        activity = activity.with_samples(
            {"GPU-a": sample}, now, cores=minute.cores, io_bytes_per_s=minute.io
        )
        if minute.stepped or (minute.used and says_use):
            use = RunUse(
                progressed_at=now if minute.stepped else use.progressed_at,
                used_at=now if minute.used else use.used_at,
            )
        if not flagged and number % 5 == 0:  # what is idle stays so for longer than that
            flagged = idle_state(activity, use, workload_type, POLICY, now).is_idle
        quiet = quiet + 1 if minute.duty <= 0.01 else 0
        under = under or quiet >= 30
        total += minute.duty
    return Watched(flagged, under, total / MINUTES)


def test_serving_pods_data_stalls_and_barriers_are_left_alone_and_runs_without_work_are_found():
    pods = [watched(serving, n, "inference", says_use=n % 2 == 0) for n in range(SERVING)]
    waiting = [watched(data_stalls, n, "training") for n in range(20)]
    waiting += [watched(barriers, n, "training") for n in range(20)]
    idle = [watched(without_work, n, "training") for n in range(40)]
    mean = sum(pod.mean_duty for pod in pods) / SERVING
    threshold = sum(pod.is_under_threshold for pod in pods)
    print(
        f"{SERVING} serving pods with a mean duty of {mean:.1%}: the plain threshold flags "
        f"{threshold}, the states {sum(pod.is_flagged for pod in pods)}; of {len(waiting)} runs "
        f"that wait {sum(run.is_under_threshold for run in waiting)} and "
        f"{sum(run.is_flagged for run in waiting)}; of {len(idle)} without work "
        f"{sum(run.is_under_threshold for run in idle)} and {sum(run.is_flagged for run in idle)}"
    )
    assert 0.05 < mean < 0.1
    assert threshold > SERVING // 2  # otherwise the generator proves nothing
    assert not any(run.is_flagged for run in (*pods, *waiting))
    assert all(run.is_flagged for run in idle)


_QUIET = GpuSample(
    gpu_id="GPU-a",
    at=START,
    utilization_ratio=0.0,
    sm_active_ratio=0.0,
    power_w=60.0,
    power_limit_w=700.0,
    memory_used_bytes=_BYTES,
    process_ids=(17,),
)
_BROKEN = {
    "missing": GpuSample(gpu_id="GPU-a", at=START),
    "lost": GpuSample(gpu_id="GPU-a", at=START, is_lost=True),
    "one missing": GpuSample(gpu_id="GPU-a", at=START, utilization_ratio=0.0),
    "garbage": GpuSample(gpu_id="GPU-a", at=START, utilization_ratio=float("nan")),
    "negative": GpuSample(gpu_id="GPU-a", at=START, utilization_ratio=-1.0),
}
# Two minutes apart: the longest gap that is none.
_SAMPLES = 45


def _sampled(activity: RunActivity, number: int, sample: GpuSample = _QUIET) -> RunActivity:
    at = START + timedelta(minutes=2 * number)
    return activity.with_samples({"GPU-a": sample}, at, cores=0.01)


@lru_cache
def _left_alone(number: int) -> RunActivity:
    """A session after this many quiet samples."""
    if not number:
        return _sampled(RunActivity.of(("GPU-a",), START - timedelta(hours=5)), 0)
    return _sampled(_left_alone(number - 1), number)


def _session(rng: random.Random, broken: str | None) -> bool:
    """Is a session found idle that was left 62 to 90 minutes ago, where a signal breaks?"""
    samples = rng.randint(31, _SAMPLES)
    now, used_at = START + timedelta(minutes=2 * samples), START
    if broken in _BROKEN or broken == "gap":
        at = rng.randint(samples - 28, samples - 1)
        activity = _left_alone(at - 1)
        if broken in _BROKEN:
            activity = _sampled(activity, at, _BROKEN[broken])
        for number in range(at + 1, samples + 1):
            activity = _sampled(activity, number)
    else:
        activity = _left_alone(samples)
    some_minutes = timedelta(minutes=rng.randint(3, 600))
    match broken:
        case "use unknown":
            used_at = None
        case "clock ahead":
            used_at = now + some_minutes
        case "late":
            now += some_minutes
        case "clock behind":
            now -= some_minutes
    return idle_state(activity, RunUse(used_at=used_at), "interactive", POLICY, now).is_idle


_BREAKS = (*_BROKEN, "gap", "use unknown", "clock ahead", "late", "clock behind")


def test_no_interactive_session_with_a_broken_signal_is_idle():
    rng = random.Random(17)
    wrong = sum(_session(rng, rng.choice(_BREAKS)) for _ in range(10_000))
    assert wrong == 0
    assert all(_session(rng, None) for _ in range(200))
