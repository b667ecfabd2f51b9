"""What runs noted about themselves, and what is wrong with it.

The journal is the runs' own, so it shows what the worker cannot know: whether two attempts of a run
lived at a time, and where each started. A line is

    SECONDS WHAT FLOW_RUN_ID ATTEMPT POD_UID STEP [RANK]

with the machine's uptime in seconds and one of `begin`, `step` (done, and saved where the run
saves), `stopped` (SIGTERM came, and it is about to end) and `end`. A node of a gang adds its rank.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from pathlib import Path

from gpu_core.decisions.model.attempts import Attempt, EndReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """One process of an attempt, from its first line to its last one.

    Attributes:
        began_at: The step that it started with.
        step: The newest step that it noted.
        has_ended: Whether it came to the end of its work.
        rank: Which node of its gang it is; only the first one saves.
    """

    run: str
    attempt: int
    pod: str
    began_s: float
    last_s: float
    began_at: int
    step: int
    has_ended: bool = False
    rank: int = 0


def read_lives(path: Path) -> tuple[Life, ...]:
    """All lives of a journal, in the order in which they started; none where there is none."""
    return lives_of(path.read_text().splitlines()) if path.exists() else ()


def lives_of(lines: Iterable[str]) -> tuple[Life, ...]:
    """The lives in these lines, in the order in which they started."""
    lives: dict[tuple[str, int, str], Life] = {}
    for line in lines:
        at, what, run, attempt, pod, step, *rank = line.split()
        key = run, int(attempt), pod
        life = lives.get(key) or Life(
            run=run, attempt=int(attempt), pod=pod, began_s=float(at), last_s=float(at),
            began_at=int(step), step=int(step), rank=int(*rank),
        )  # fmt: skip
        lives[key] = replace(
            life, last_s=float(at), step=int(step), has_ended=life.has_ended or what == "end"
        )
    return tuple(sorted(lives.values(), key=lambda life: life.began_s))


def resumptions(lives: Iterable[Life]) -> list[tuple[Life, Life]]:
    """Each life that is not its run's first one, after the one before it; of first nodes alone.

    Args:
        lives: Of all runs, in the order in which they started.
    """
    of_first = _by_run(life for life in lives if not life.rank)
    return [pair for of_run in of_first.values() for pair in pairwise(of_run)]


def faults_of_lives(
    lives: Sequence[Life],
    runs: Collection[str],
    saving: Collection[str] = (),
) -> list[str]:
    """What is wrong with these lives? Nothing, if all is well.

    One attempt may live twice, one life after the other: before 1.26 Kubernetes replaces a pod that
    a user deletes, once it is gone, while no worker acts.

    Args:
        lives: Of all runs, in the order in which they started.
        runs: The flow runs that there were.
        saving: Those of them that keep a checkpoint.
    """
    ended = {life.run for life in lives if life.has_ended and not life.rank}
    found = [f"{run} never came to its end" for run in runs if run not in ended]
    for of_run in _by_run(lives).values():
        found += [
            f"{later.run} ran twice for {earlier.last_s - later.began_s:.1f} s: "
            f"attempts {earlier.attempt} and {later.attempt}"
            for earlier, later in combinations(of_run, 2)
            if later.began_s < earlier.last_s and not _are_a_gang(earlier, later)
        ]
    for earlier, later in resumptions(lives):
        run = later.run
        if run in saving and not earlier.step <= later.began_at <= earlier.step + 1:
            found.append(
                f"{run}, attempt {later.attempt} began at step {later.began_at}, "
                f"where attempt {earlier.attempt} had saved {earlier.step}"
            )
    return found


def _are_a_gang(one: Life, other: Life) -> bool:
    return one.attempt == other.attempt and one.rank != other.rank


def faults_of_gangs(
    lives: Sequence[Life], attempts: Mapping[str, Sequence[Attempt]], gangs: Iterable[str]
) -> list[str]:
    """Which gangs completed without the work of all their nodes? None, if all is well.

    Args:
        lives: Of all runs.
        attempts: The ledger's, by flow run.
        gangs: The flow runs of which each node works, not only the first.
    """
    worked = {(life.run, life.attempt, life.rank) for life in lives if life.has_ended}
    return [
        f"{run}, attempt {attempt.number} completed without the work of node {rank}"
        for run in gangs
        for attempt in attempts.get(run, ())
        if attempt.end_reason is EndReason.COMPLETED
        for rank in range(len(attempt.held))
        if (run, attempt.number, rank) not in worked
    ]


def faults_of_ledger(
    lives: Sequence[Life],
    attempts: Mapping[str, Sequence[Attempt]],
    runs: Collection[str],
) -> list[str]:
    """What does the ledger have otherwise than the runs themselves? Nothing, if all is well.

    Args:
        lives: Of all runs.
        attempts: The ledger's, by flow run; those of a run in their order.
        runs: The flow runs that there were.
    """
    found = []
    started = {
        (attempt.flow_run_id, attempt.number)
        for of_run in attempts.values()
        for attempt in of_run
        if attempt.started_at is not None
    }
    for life in lives:
        if (life.run, life.attempt) not in started:
            found.append(f"{life.run}, attempt {life.attempt} ran and was not found in the ledger")
    lived = {(life.run, life.attempt) for life in lives if not life.rank}
    for run in runs:
        of_run = attempts.get(run, ())
        numbers = [attempt.number for attempt in of_run]
        if numbers != list(range(1, len(numbers) + 1)):
            found.append(f"{run} has the attempts {numbers} in the ledger")
        completed = [a.number for a in of_run if a.end_reason is EndReason.COMPLETED]
        if completed != numbers[-1:]:
            found.append(f"{run} completed in {completed} of its attempts {numbers}")
        found += [
            f"{run}, attempt {number} completed and never ran"
            for number in completed
            if (run, number) not in lived
        ]
        found += [
            f"{run}, attempt {attempt.number} still holds its GPUs"
            for attempt in of_run
            if attempt.released_at is None
        ]
        found += [
            f"{run}, attempt {later.number} got GPUs before attempt {earlier.number} gave them back"
            for earlier, later in pairwise(of_run)
            if earlier.released_at is not None and later.admitted_at < earlier.released_at
        ]
    return found


def _by_run(lives: Iterable[Life]) -> dict[str, list[Life]]:
    by_run: dict[str, list[Life]] = defaultdict(list)
    for life in lives:
        by_run[life.run].append(life)
    return by_run
