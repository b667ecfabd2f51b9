"""Hangs of simulated runs: found and named within their time, and none where a run only pauses.

A simulated run is a list of stretches, each with what its ranks do; it is looked at every 15 s, as
the worker does it.
"""

import random
from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from statistics import median

import pytest

from gpu_core.decisions.telemetry.hung_training import (
    HangKind,
    Load,
    RankState,
    WorkLevel,
    find_hang,
    stuck_after_s,
)
from tests.support.examples import examples

START = datetime(2026, 11, 25, tzinfo=UTC)
LOOK_S = 15.0
COLLECTIVE = (
    'Current thread 0x1 (most recent call first):\n  File "c10d.py", line 9 in all_reduce\n'
)
LOADER = (
    "Current thread 0x1 (most recent call first):\n"
    '  File "/torch/utils/data/dataloader.py", line 1120 in _try_get_data\n'
)
LOOP = 'Current thread 0x1 (most recent call first):\n  File "train.py", line 7 in transform\n'

STEPPING = Load(
    utilization_ratio=0.95, sm_active_ratio=0.6, power_ratio=0.8, cores=1.2, io_bytes_per_s=2e6
)
SPINS = Load(
    utilization_ratio=1.0, sm_active_ratio=0.05, power_ratio=0.35, cores=1.0, io_bytes_per_s=0.0
)
NOTHING = Load(
    utilization_ratio=0.0, sm_active_ratio=0.0, power_ratio=0.1, cores=0.01, io_bytes_per_s=0.0
)
COMPUTES = replace(NOTHING, cores=1.0)
EVALUATES = replace(STEPPING, sm_active_ratio=0.45, power_ratio=0.7, io_bytes_per_s=1e5)
SAVES = replace(NOTHING, cores=0.9, io_bytes_per_s=2e8)
LOADS = replace(NOTHING, cores=4.0, io_bytes_per_s=0.0)


@dataclass
class Run:
    """A simulated run of some ranks."""

    rng: random.Random
    ranks: int
    step_s: float
    has_gpm: bool
    now_s: float = 0.0

    def __post_init__(self):
        self.states = [
            RankState(
                rank=rank,
                node=f"n{rank // 8}",
                gpu_id=f"GPU-{rank}",
                steps=0,
                progressed_at=START,
                median_step_s=None,
                longest_step_s=None,
            )
            for rank in range(self.ranks)
        ]
        self.intervals = []
        self.last_step_s = None
        self.found = None

    @property
    def now(self):
        return START + timedelta(seconds=self.now_s)

    def seen(self, load):
        """The load as it is measured: with noise, and without SM activity on older GPUs."""

        def noisy(value):
            return None if value is None else value * self.rng.uniform(0.9, 1.1)

        return Load(
            utilization_ratio=min(1.0, noisy(load.utilization_ratio)),
            sm_active_ratio=noisy(load.sm_active_ratio) if self.has_gpm else None,
            power_ratio=noisy(load.power_ratio),
            cores=noisy(load.cores),
            io_bytes_per_s=noisy(load.io_bytes_per_s),
        )

    def look(self, loads, stacks=None):
        self.states = [
            replace(state, load=self.seen(load), stack="" if stacks is None else stacks[state.rank])
            for state, load in zip(self.states, loads, strict=True)
        ]
        self.found = self.found or find_hang(self.states, None, self.now)
        return self.found

    def step(self, for_s):
        """Make steps for this long."""
        until_s = self.now_s + for_s
        next_look_s = self.now_s + LOOK_S
        steps = 0
        while self.now_s < until_s:
            took_s = self.step_s * self.rng.lognormvariate(0, 0.2)
            self.now_s += took_s
            if self.last_step_s is not None:
                self.intervals.append(self.now_s - self.last_step_s)
            self.last_step_s = self.now_s
            steps += 1
            if self.now_s >= next_look_s:
                next_look_s = self.now_s + LOOK_S
                self.progress(steps)
                steps = 0
                load = self.seen(STEPPING)
                self.states = [
                    replace(state, level=state.level.with_load(load)) for state in self.states
                ]
                self.look([STEPPING] * self.ranks)
        self.progress(steps)

    def progress(self, steps):
        """What a look finds after these steps, which all ranks make together."""
        if not steps:
            return
        last = self.intervals[-64:]
        changes = {
            "progressed_at": self.now,
            "phase": None,
            "median_step_s": median(last) if len(last) >= 3 else None,
            "longest_step_s": max(self.intervals, default=None),
        }
        self.states = [
            replace(state, steps=state.steps + steps, **changes) for state in self.states
        ]

    def pause(self, for_s, loads, phase=None, stacks=None):
        """No steps for this long; the time at which it was found to hang, if it was."""
        if phase is not None:
            self.last_step_s = None
            self.states = [
                replace(state, phase=phase, progressed_at=self.now) for state in self.states
            ]
        began_s = self.now_s
        while self.now_s - began_s < for_s:
            self.now_s += LOOK_S
            if phase == "evaluating":  # each batch is reported
                self.states = [replace(state, progressed_at=self.now) for state in self.states]
            if self.look(loads, stacks):
                return self.now_s - began_s
        return None


def new_run(seed):
    rng = random.Random(seed)
    return Run(
        rng=rng,
        ranks=rng.choice([1, 1, 2, 4, 8]),
        step_s=rng.choice([0.5, 2.0, 10.0, 40.0]),
        has_gpm=rng.random() < 0.5,
    )


def with_pauses(run):
    """Work with pauses of all kinds, announced or not, of all ranks or of the first one."""
    run.step(run.rng.uniform(10, 40) * run.step_s + 60)
    for _ in range(run.rng.randint(2, 4)):
        kind = run.rng.choice(["evaluation", "save", "loading", "announced save", "evaluating"])
        load = {"evaluation": EVALUATES, "save": SAVES, "loading": LOADS}.get(kind, NOTHING)
        alone = run.rng.random() < 0.3
        loads = [load, *[SPINS if alone else load] * (run.ranks - 1)]
        match kind:
            case "announced save":
                run.pause(run.rng.uniform(10, 1200), loads, phase="saving")
            case "evaluating":
                run.pause(run.rng.uniform(60, 1800), loads, phase="evaluating")
            case _:
                run.pause(run.rng.uniform(30, 1500), loads)
        run.step(run.rng.uniform(5, 20) * run.step_s)
    return run.found


def stalled(run, how):
    """Work, then one of the four stalls: when it was found, and by which name it should be."""
    run.step(run.rng.uniform(10, 40) * run.step_s + 120)
    if run.rng.random() < 0.5:
        run.pause(run.rng.uniform(20, 100), [SAVES] * run.ranks)
        run.step(20 * run.step_s)
    at_fault = run.rng.randrange(run.ranks)
    others = [SPINS] * run.ranks
    loads, stacks = others, [COLLECTIVE] * run.ranks
    match how:
        case HangKind.SPINNING:
            at_fault = None
        case HangKind.DEADLOCKED:
            loads, at_fault = [NOTHING] * run.ranks, None
        case HangKind.SLOW_RANK:
            loads[at_fault], stacks[at_fault] = COMPUTES, LOOP
        case HangKind.DEAD_LOADER:
            loads[at_fault], stacks[at_fault] = NOTHING, LOADER
    took_s = run.pause(3600, loads, stacks=stacks)
    want = tuple(range(run.ranks)) if at_fault is None else (at_fault,)
    return took_s, want


def test_95_percent_of_stalls_are_named_in_five_minutes_or_ten_steps():
    named, late = Counter(), Counter()
    total = Counter()
    for seed in range(400):
        run = new_run(seed)
        kinds = [kind for kind in HangKind if kind is not HangKind.SLOW_RANK or run.ranks > 1]
        how = kinds[seed % len(kinds)]
        took_s, want = stalled(run, how)
        total[how] += 1
        limit_s = max(300.0, 10 * median(run.intervals[-64:]))
        if took_s is None or took_s > limit_s:
            late[how] += 1
        elif (run.found.kind, run.found.ranks) == (how, want):
            named[how] += 1
    print(f"named rightly {sum(named.values())} of 400, late {sum(late.values())}: {dict(named)}")
    assert sum(named.values()) >= 380


def test_no_run_that_pauses_hangs():
    wrong = [seed for seed in range(examples(1000)) if with_pauses(new_run(seed))]
    assert wrong == []


RANK = RankState(
    rank=3,
    node="n1",
    gpu_id="GPU-d",
    steps=145,
    progressed_at=START,
    median_step_s=1.2,
    longest_step_s=3.0,
    load=SPINS,
    level=WorkLevel(observations=9, sm_active_ratio=0.6, power_ratio=0.8),
)
SIX_MINUTES = START + timedelta(seconds=370)


@pytest.mark.parametrize(
    ("changes", "given_s", "want_s"),
    [
        pytest.param({}, None, 120, id="short steps"),
        pytest.param({"median_step_s": 60.0}, None, 300, id="five median steps"),
        pytest.param({"longest_step_s": 400.0}, None, 800, id="twice its longest pause"),
        pytest.param({"median_step_s": None}, None, None, id="no steps yet"),
        pytest.param({}, 30, 30, id="stated"),
        pytest.param({"phase": "saving"}, None, 1800, id="a save"),
    ],
)
def test_after_how_long_a_rank_is_stuck(changes, given_s, want_s):
    assert stuck_after_s(replace(RANK, **changes), given_s) == want_s


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"load": None}, id="its GPU is not sampled"),
        pytest.param({"load": EVALUATES}, id="its GPU works as in steps"),
        pytest.param({"load": SAVES}, id="it writes"),
        pytest.param({"phase": "ended"}, id="its loop is over"),
        pytest.param({"phase": "saving"}, id="it saves"),
        pytest.param({"progressed_at": START + timedelta(hours=9)}, id="its clock is wrong"),
    ],
)
def test_what_works_does_not_hang(changes):
    assert find_hang([RANK], None, SIX_MINUTES) is not None
    assert find_hang([replace(RANK, **changes)], None, SIX_MINUTES) is None


def test_the_sentence_names_rank_node_gpu_and_signals():
    found = find_hang([RANK], None, SIX_MINUTES)
    assert found.text == (
        "No progress for 6m 10s after step 145: rank 3 on n1 (GPU-d) spins, its steps took 1.2 s, "
        "utilization 100%, SM activity 5%, power 35% of the limit, 1.0 processor cores."
    )


@pytest.mark.parametrize(
    ("ranks", "steps", "want"),
    [
        pytest.param(2, (145, 145), "rank 1 on", id="all report"),
        pytest.param(
            *(4, (145, 145)),
            "of 2 other ranks, which may be at fault, nothing is known",
            id="those of another pod do not",
        ),
        pytest.param(4, (145, 144), "1 other rank waits for it", id="one of those here is behind"),
    ],
)
def test_ranks_that_do_not_report_are_not_cleared(ranks, steps, want):
    known = [replace(RANK, rank=n, steps=done, ranks=ranks) for n, done in enumerate(steps)]
    text = find_hang(known, None, SIX_MINUTES).text
    assert want in text
    assert ("nothing is known" in text) is ("nothing is known" in want)


def test_a_run_without_reports_is_never_hung():
    assert find_hang([], None, SIX_MINUTES) is None


def with_drawn_power(run):
    """Loads of a run whose GPUs have no SM activity: by parts of the power that its steps draw.

    A kernel that spins draws a third to two thirds of it, an evaluation four fifths to all of it.
    """
    spins, evaluates = run.rng.uniform(1 / 3, 2 / 3), run.rng.uniform(0.8, 1.0)
    power = STEPPING.power_ratio
    return (
        replace(SPINS, power_ratio=spins * power),
        replace(EVALUATES, power_ratio=evaluates * power),
    )


def test_power_alone_distinguishes_a_kernel_that_spins_from_an_evaluation():
    """Of seeds that no constant was chosen on."""
    late, wrong, count = [], [], examples(400)
    for seed in range(1_000_000, 1_000_000 + count):
        run = replace(new_run(seed), has_gpm=False)
        spins, evaluates = with_drawn_power(run)
        run.step(run.rng.uniform(10, 40) * run.step_s + 120)
        # Under half of the hour after which it is named whatever its GPUs do.
        run.pause(run.rng.uniform(130, 1500), [evaluates] * run.ranks)
        if run.found:
            wrong.append(seed)
            continue
        run.step(30 * run.step_s)
        # Its longest pause counts twice, so that the deadline is its own.
        limit_s = max(300.0, 10 * median(run.intervals[-64:]), 2 * max(run.intervals) + 60)
        took_s = run.pause(7200, [spins] * run.ranks)
        if took_s is None or took_s > limit_s:
            late.append(seed)
    print(f"of {count}: {len(wrong)} evaluations taken for a hang, {len(late)} hangs named late")
    assert len(wrong) + len(late) <= count / 20
