"""Which writes share a transaction, and whose error it is; the same on both databases."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError, OperationalError

from gpu_core.adapters.ledger.engine import connect, parse_url, writing
from gpu_core.adapters.ledger.errors import LedgerError
from gpu_core.adapters.ledger.group_commit import GroupCommit
from tests.support.waiting import wait_for

NUMBERS = sa.Table("numbers", sa.MetaData(), sa.Column("n", sa.Integer, primary_key=True))
WITHIN_S = 60


class World:
    """A table, who writes to it, and how many transactions wrote."""

    def __init__(self, engine: sa.Engine) -> None:
        self.engine = writing(engine)
        NUMBERS.create(self.engine)
        self.commits = GroupCommit(self.engine)
        self.transactions = 0
        sa.event.listen(engine, "commit", self._count)

    def _count(self, _connection: sa.Connection) -> None:
        self.transactions += 1

    def numbers(self) -> set[int]:
        with self.engine.connect() as connection:
            return set(connection.scalars(sa.select(NUMBERS.c.n)))

    def add(self, number: int) -> int:
        self.commits.write(lambda c: c.execute(sa.insert(NUMBERS).values(n=number)))
        assert number in self.numbers(), "it returned before it was written"
        return number

    def fail_as_when_the_database_is_gone(self) -> None:
        def fail(_connection: sa.Connection) -> None:
            raise OperationalError("INSERT", None, ConnectionError("gone"))

        self.commits.write(fail)

    def fail_as_when_the_thread_is_ended(self) -> None:
        def end(_connection: sa.Connection) -> None:
            raise SystemExit

        self.commits.write(end)

    def together(self, *writes: Callable[[], Any]) -> list[Future[Any]]:
        """Let these write while a transaction is under way, in this order."""
        is_under_way, may_end = threading.Event(), threading.Event()

        def first(connection: sa.Connection) -> None:
            is_under_way.set()
            assert may_end.wait(WITHIN_S)
            connection.execute(sa.insert(NUMBERS).values(n=0))

        with ThreadPoolExecutor(1 + len(writes)) as threads:
            futures = [threads.submit(self.commits.write, first)]
            assert is_under_way.wait(WITHIN_S)
            for place, write in enumerate(writes, start=1):
                futures.append(threads.submit(write))
                wait_for(lambda place=place: len(self.commits._gathered) == place, "it is gathered")
            may_end.set()
        return futures[1:]


@contextmanager
def disposed(engine: sa.Engine) -> Iterator[sa.Engine]:
    try:
        yield engine
    finally:
        engine.dispose()


@pytest.fixture
def world(ledger_url: str) -> Iterator[World]:
    with disposed(connect(parse_url(ledger_url))) as engine:
        yield World(engine)


def test_what_comes_while_a_transaction_is_under_way_shares_the_next_one(world: World) -> None:
    futures = world.together(*(lambda n=n: world.add(n) for n in range(1, 6)))
    assert [future.result() for future in futures] == [1, 2, 3, 4, 5]
    assert world.numbers() == {0, 1, 2, 3, 4, 5}
    assert world.transactions == 2


def test_a_write_that_fails_spoils_no_other(world: World) -> None:
    world.add(2)
    futures = world.together(*(lambda n=n: world.add(n) for n in (1, 2, 3)))
    assert isinstance(futures[1].exception(), IntegrityError)
    assert [futures[0].result(), futures[2].result()] == [1, 3]
    assert world.numbers() == {0, 1, 2, 3}


def test_a_database_that_is_gone_is_asked_once_for_all(world: World) -> None:
    """Each of a hundred would wait for the connection's time-out, one after the other."""
    futures = world.together(lambda: world.add(1), world.fail_as_when_the_database_is_gone)
    assert [type(future.exception()) for future in futures] == [OperationalError] * 2
    assert world.numbers() == {0}
    assert world.transactions == 1
    assert world.add(4) == 4


def test_what_was_not_committed_looks_to_no_reader_as_if_it_were(world: World) -> None:
    """The thread that commits for all is ended during it."""
    futures = world.together(lambda: world.add(1), world.fail_as_when_the_thread_is_ended)
    assert {type(future.exception()) for future in futures} == {LedgerError, SystemExit}
    assert world.numbers() == {0}
    assert world.add(4) == 4


class Deadlock(Exception):
    """What psycopg raises where PostgreSQL ends one of two transactions in each other's way."""

    sqlstate = "40P01"


def test_after_a_deadlock_each_write_is_executed_alone(world: World) -> None:
    """Shared transactions change rows in the order in which writes came; so may another worker."""
    clashes = [Deadlock("deadlock detected")]

    def write(connection: sa.Connection) -> None:
        if clashes:
            raise OperationalError("INSERT", None, clashes.pop())
        connection.execute(sa.insert(NUMBERS).values(n=2))

    futures = world.together(lambda: world.add(1), lambda: world.commits.write(write))
    assert [future.exception() for future in futures] == [None, None]
    assert world.numbers() == {0, 1, 2}
