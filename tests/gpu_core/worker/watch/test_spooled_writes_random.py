"""Random outages, kills, full disks and jumping clocks: no record is lost, and none is twice."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy.exc import OperationalError

from gpu_core.adapters.ledger import Ledger
from gpu_core.adapters.ledger.database import Logged
from gpu_core.adapters.ledger.spool import Spool, SpooledRecord, SpoolFull
from gpu_core.testing.builders.attempts import NOON
from gpu_core.worker.watch.spooled_writes import SpooledWrites
from tests.gpu_core.decisions.model.test_decision_chain import make_decision


class Killed(BaseException):
    """The worker's process ends here."""


class Ledgers(NamedTuple):
    """A ledger for all examples; each has a writer of its own."""

    ledger: Ledger
    folder: Path


class Unsteady:
    """A ledger that is away at times, and whose client may be killed before or after a write."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.is_away = False
        self.writes_until_kill: int | None = None
        self.is_killed_before = False

    def log(self, logged: Logged) -> None:
        """Write decisions, as `Ledger.log` does."""
        if self.is_away:
            raise OperationalError("INSERT", {}, ConnectionError("connection refused"))
        if self._is_last() and self.is_killed_before:
            raise Killed
        self._ledger.log(logged)
        if self.writes_until_kill == 0:
            raise Killed

    def _is_last(self) -> bool:
        if self.writes_until_kill is None:
            return False
        self.writes_until_kill -= 1
        return self.writes_until_kill == 0


class Story:
    """A worker and its successors, with what is promised to be in the ledger in the end."""

    def __init__(self, ledger: Ledger, path: Path, writer: str) -> None:
        self._path, self._writer, self._ledger = path, writer, ledger
        self.unsteady = Unsteady(ledger)
        self.promised: list[str] = []
        self.perhaps: set[str] = set()
        self._written = 0
        self.begin()

    def begin(self) -> None:
        """A new process of the worker, with the file of the one before."""
        self.unsteady.writes_until_kill = None
        self.writes = SpooledWrites(self.unsteady, self._path)  # type: ignore[arg-type]  # it has what is called here

    def write(self, clock_s: int) -> None:
        """Log a decision at this moment of a clock that may jump."""
        self._written += 1
        name = f"{self._writer}-{self._written}"
        decided_at = NOON + timedelta(seconds=clock_s)
        decision = make_decision(self._written, decision_id=name, decided_at=decided_at)
        try:
            self.writes._write(SpooledRecord(writer=self._writer, decisions=(decision,)))
        except (Killed, SpoolFull) as error:
            # The worker knows that it was refused, or is dead: it may be there, once.
            self.perhaps.add(name)
            if isinstance(error, Killed):
                self.begin()
        else:
            self.promised.append(name)

    def replay(self) -> None:
        """Begin a cycle."""
        try:
            with suppress(OperationalError):
                self.writes._replay()
        except Killed:
            self.begin()

    def tear(self, size: int) -> None:
        """A kill in the middle of an append leaves the beginning of a line."""
        with self._path.open("ab") as file:
            file.write(b'{"writer":"x","decisions":[{"decision_id"'[:size])
        self.begin()

    def forget_to_clear(self) -> None:
        """A kill after a replay, before its file is removed: all of it is replayed again."""
        waiting = self._path.read_bytes() if self._path.exists() else b""
        self.replay()
        if waiting:
            self._path.write_bytes(waiting)
        self.begin()

    def ends_whole(self) -> None:
        """The ledger is back: what was promised is there once, in order, in a chain that holds."""
        self.unsteady.is_away = False
        self.begin()
        self.writes._replay()
        assert not self.writes.is_behind
        links = [
            d for d in self._ledger.decisions() if d.decision_id.startswith(f"{self._writer}-")
        ]
        found = [link.decision_id for link in links]
        assert len(set(found)) == len(found)
        assert sorted(set(self.promised) - set(found)) == []
        assert set(found) <= {*self.promised, *self.perhaps}


Step = Callable[[Story], Any]


def away(story: Story) -> None:
    """The ledger cannot be reached from now on."""
    story.unsteady.is_away = True


def back(story: Story) -> None:
    """The ledger answers again."""
    story.unsteady.is_away = False


def _kill(story: Story, writes: int, is_before: bool) -> None:
    story.unsteady.writes_until_kill = writes
    story.unsteady.is_killed_before = is_before


steps = st.one_of(
    st.integers(-(10**6), 10**6).map(lambda clock_s: lambda story: story.write(clock_s)),
    st.just(away),
    st.just(back),
    st.just(Story.begin),
    st.just(Story.replay),
    st.just(Story.forget_to_clear),
    st.integers(1, 40).map(lambda size: lambda story: story.tear(size)),
    st.tuples(st.integers(1, 3), st.booleans()).map(lambda when: lambda story: _kill(story, *when)),
)


@pytest.fixture(scope="module")
def ledgers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ledgers]:
    """A ledger for all examples: making one takes longer than all the rest."""
    folder = tmp_path_factory.mktemp("spools")
    with Ledger.open(f"sqlite:///{folder / 'ledger.db'}") as ledger:
        yield Ledgers(ledger, folder)


def _new_story(ledgers: Ledgers) -> Story:
    number = len(list(ledgers.folder.glob("story-*")))
    folder = ledgers.folder / f"story-{number}"
    folder.mkdir()
    return Story(ledgers.ledger, folder / "ledger.spool", f"w{number}")


@settings(deadline=None)
@given(plan=st.lists(steps, max_size=25))
def test_what_was_taken_is_in_the_ledger_once(ledgers: Ledgers, plan: list[Step]) -> None:
    story = _new_story(ledgers)
    for step in plan:
        step(story)
    story.ends_whole()


@settings(deadline=None)
@given(plan=st.lists(steps, max_size=15), room=st.integers(0, 1500))
def test_a_file_without_room_refuses_records_and_loses_none(
    ledgers: Ledgers,
    plan: list[Step],
    room: int,
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "gpu_core.worker.watch.spooled_writes.Spool", lambda path: Spool(path, most_bytes=room)
        )
        story = _new_story(ledgers)
        for step in plan:
            step(story)
        story.ends_whole()
