"""The scheduler's knowledge of run times: nothing, the truth, or something in between."""

import hashlib
from typing import Protocol

from gpu_core.decisions.model.workload import RunTime, RunTimeSource
from gpu_core.decisions.policy.run_times import RunTimePolicy
from gpu_core.decisions.scheduling.forecasting.run_times import RunKind, RunTimeHistory
from gpu_core.decisions.simulation.cluster.trace import TraceJob

# Users ask for up to five times what they need; uniform, as in the evaluation of EASY by
# Mu'alem and Feitelson (TPDS 2001).
_MOST_NOISE = 5.0


class RunTimeOracle(Protocol):
    """The assumed run times while a trace is replayed."""

    def observe(self, job: TraceJob, duration_s: float) -> None:
        """A job has finished by itself after so much work."""

    def run_time(self, job: TraceJob) -> RunTime | None:
        """How long will a job that is being submitted take? None: unknown."""


class NoRunTimes:
    """Nothing is known."""

    def observe(self, job: TraceJob, duration_s: float) -> None:
        """Nothing is learned."""

    def run_time(self, job: TraceJob) -> RunTime | None:  # noqa: ARG002 - others need it
        """Unknown."""
        return None


class TrueRunTimes(NoRunTimes):
    """An oracle: the run times of the trace."""

    def run_time(self, job: TraceJob) -> RunTime | None:
        """The truth."""
        return _exactly(job.duration_s)


class NoisyRunTimes(NoRunTimes):
    """Estimates of one to five times the truth, independent of the order of the questions."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def run_time(self, job: TraceJob) -> RunTime | None:
        """The truth times a number from U[1, 5] that belongs to the job and the seed."""
        digest = hashlib.blake2b(f"{self._seed}:{job.job_id}".encode(), digest_size=8).digest()
        uniform = int.from_bytes(digest) / 2**64
        return _exactly(job.duration_s * (1 + (_MOST_NOISE - 1) * uniform))


class StatedRunTimes(NoRunTimes):
    """The run times that the owners stated."""

    def run_time(self, job: TraceJob) -> RunTime | None:
        """The owner's word; None: the owner said nothing."""
        return None if job.stated_s is None else _exactly(job.stated_s)


class LearnedRunTimes:
    """Run times learned from the jobs that have finished so far. A job is judged once, at
    submission.

    Args:
        policy: Which quantile, and from how many runs on.
    """

    def __init__(self, policy: RunTimePolicy) -> None:
        self._policy = policy
        self._history = RunTimeHistory()

    def observe(self, job: TraceJob, duration_s: float) -> None:
        """Learn from a job that has finished."""
        self._history.observe(_kind(job), duration_s)

    def run_time(self, job: TraceJob) -> RunTime | None:
        """The run time of similar jobs; None: too few have finished."""
        return self._history.learned(_kind(job), self._policy)


def _kind(job: TraceJob) -> RunKind:
    return RunKind(deployment=job.deployment, team=job.team, gpus=job.gpu_count * job.nodes)


def _exactly(duration_s: float) -> RunTime:
    return RunTime(median_s=duration_s, upper_s=duration_s, source=RunTimeSource.STATED)
