"""Several processes of one run save together, and restore the same checkpoint."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from gpu_core.adapters.checkpoints.store import CheckpointStore, LocalStore
from gpu_core.adapters.files.run_files import read_checkpoint_report
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.requests.runs.run_context import RunContext
from gpu_core.runtime import Ranks, checkpointing
from gpu_core.runtime.checkpoints import Checkpointing

StartAttempt = Callable[..., RunContext]


class Meeting:
    """Ranks that are threads, and exchange numbers."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._reported: dict[int, int] = {}
        self._barrier = threading.Barrier(count)

    def ranks(self) -> list[Ranks]:
        return [
            Ranks(rank=rank, count=self._count, exchange=self._exchange_of(rank))
            for rank in range(self._count)
        ]

    def _exchange_of(self, rank: int) -> Callable[[int], Sequence[int]]:
        def exchange(number: int) -> list[int]:
            self._reported[rank] = number
            self._barrier.wait()
            numbers = [self._reported[each] for each in range(self._count)]
            self._barrier.wait()
            return numbers

        return exchange


def on_all(
    ranks: list[Ranks],
    work: Callable[[Checkpointing, int], object],
    store: CheckpointStore | None = None,
) -> list[object]:
    """What each rank's work answers, all at once."""

    def of_rank(own: Ranks) -> object:
        interval_s = 0 if own.rank == 1 else 10_000
        with checkpointing(store=store, ranks=own, interval_s=interval_s) as ckpt:
            return work(ckpt, own.rank)

    with ThreadPoolExecutor(len(ranks)) as pool:
        return list(pool.map(of_rank, ranks))


def test_all_save_when_one_finds_it_is_time(start_attempt: StartAttempt) -> None:
    """Clocks differ between ranks; the answer does not, and rank 0 reports to the worker."""
    run = start_attempt(1)

    def train(ckpt: Checkpointing, rank: int) -> list[bool]:
        asked = [ckpt.due(), ckpt.due()]
        ckpt.save({"rank": rank})
        return asked

    assert on_all(Meeting(3).ranks(), train) == [[True, True]] * 3
    report = read_checkpoint_report(run.run_dir)
    assert report.checkpoint == "3f0c/000001-00000001"
    assert report.size_bytes > 3 * 10  # of all ranks together
    start_attempt(2)
    assert on_all(Meeting(3).ranks(), lambda ckpt, _: ckpt.restore(None)) == [
        {"rank": 0},
        {"rank": 1},
        {"rank": 2},
    ]


def test_all_restore_the_newest_that_is_good_for_all(
    start_attempt: StartAttempt, tmp_path: Path
) -> None:
    """One rank's damaged part takes the others back too, each rank reading only its own."""
    start_attempt(1)

    def train(ckpt: Checkpointing, rank: int) -> None:
        for step in (1, 2):
            ckpt.save({"step": step, "rank": rank})

    on_all(Meeting(2).ranks(), train)
    (tmp_path / "store/3f0c/000001-00000002.rank1.bin").write_bytes(b"?")
    start_attempt(2)
    assert on_all(Meeting(2).ranks(), lambda ckpt, _: ckpt.restore(None)) == [
        {"step": 1, "rank": 0},
        {"step": 1, "rank": 1},
    ]


def test_nothing_that_is_good_for_all_means_the_beginning(
    start_attempt: StartAttempt, tmp_path: Path
) -> None:
    """For every rank."""
    start_attempt(1)
    on_all(Meeting(2).ranks(), lambda ckpt, rank: ckpt.save(rank))
    (tmp_path / "store/3f0c/000001-00000001.rank0.bin").unlink()
    start_attempt(2)
    restored = on_all(Meeting(2).ranks(), lambda ckpt, _: ckpt.restore("new"))
    assert restored == ["new", "new"]


def test_a_store_that_fails_leaves_no_rank_waiting(
    start_attempt: StartAttempt, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """They still meet, none saves, and the training goes on."""

    class Failing(LocalStore):
        is_broken = False

        def names(self, folder: str) -> tuple[str, ...]:
            if self.is_broken:
                raise ConnectionError("the network is gone")
            return super().names(folder)

    store = Failing(tmp_path / "store")
    start_attempt(1, checkpoint_uri=None)

    def train(ckpt: Checkpointing, rank: int) -> list[object]:
        ckpt.due()  # both have started
        store.is_broken = True
        return [ckpt.save(rank), ckpt.due()]

    assert on_all(Meeting(2).ranks(), train, store) == [[None, True], [None, True]]
    assert caplog.text.count("ConnectionError: the network is gone") == 2


def test_ranks_that_do_not_talk_save_at_the_same_steps(start_attempt: StartAttempt) -> None:
    """The step is the number; the store is where rank 0 sees that all parts are there."""
    start_attempt(1)
    ranks = [Ranks(rank=rank, count=2) for rank in range(2)]

    def train(ckpt: Checkpointing, rank: int) -> None:
        for step in (10, 20):
            ckpt.save({"step": step, "rank": rank}, step=step)

    on_all(ranks, train)
    start_attempt(2)
    assert on_all(ranks, lambda ckpt, _: ckpt.restore(None)) == [
        {"step": 20, "rank": 0},
        {"step": 20, "rank": 1},
    ]


@pytest.mark.parametrize("step", [0, np.int64(7)], ids=["step 0", "a number of NumPy"])
def test_each_step_is_a_number_that_ranks_can_agree_on(
    start_attempt: StartAttempt, step: int
) -> None:
    """Rank 0 comes when the other's part is there: it must not take that for an earlier save."""
    start_attempt(1)
    for rank in (1, 0):
        with checkpointing(ranks=Ranks(rank=rank, count=2)) as ckpt:
            wait_for_no_one(ckpt)
            assert ckpt.save({"rank": rank}, step=step) is not None
    start_attempt(2)
    ranks = [Ranks(rank=rank, count=2) for rank in range(2)]
    assert on_all(ranks, lambda ckpt, _: ckpt.restore(None)) == [{"rank": 0}, {"rank": 1}]


def wait_for_no_one(ckpt: Checkpointing) -> None:
    assert ckpt._checkpoints is not None
    ckpt._checkpoints._shards_timeout_s = 0.0


def test_a_negative_step_is_refused(start_attempt: StartAttempt) -> None:
    start_attempt(1)
    with (
        checkpointing(ranks=Ranks(rank=1, count=2)) as ckpt,
        pytest.raises(InvalidInput, match="step is out of range"),
    ):
        ckpt.save("x", step=-1)


@pytest.mark.parametrize("ask", [Checkpointing.due, lambda ckpt: ckpt.save("x")])
def test_ranks_that_do_not_talk_cannot_decide_together(
    start_attempt: StartAttempt, ask: Callable[[Checkpointing], object]
) -> None:
    """The error says what to give."""
    start_attempt(1)
    with (
        checkpointing(ranks=Ranks(rank=0, count=2)) as ckpt,
        pytest.raises(InvalidInput, match=r"ranks\.exchange is needed.*save\(state, step=step\)"),
    ):
        ask(ckpt)


@pytest.mark.parametrize(("rank", "count"), [(2, 2), (-1, 1), (0, 0)])
def test_a_rank_is_one_of_them(rank: int, count: int) -> None:
    """Counted from 0."""
    with pytest.raises(InvalidInput, match=r"ranks\.rank is out of range"):
        Ranks(rank=rank, count=count)
