"""Whatever is purged when: the rest verifies, and what past months used does not change."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_core.adapters.ledger import Ledger
from gpu_core.adapters.ledger.database import Logged
from gpu_core.adapters.ledger.retention import purge_before
from gpu_core.adapters.ledger.schema import decision_anchors, decisions, purged_policies
from gpu_core.decisions.model.decision_chain import POLICY_TEXT, Decision, DecisionKind
from gpu_core.testing.builders.attempts import at
from tests.gpu_core.decisions.model.test_decision_chain import make_decision

KEY = b"a key of the platform team"
HOURS = range(8)
hours = st.sampled_from(HOURS)
records = st.tuples(
    st.sampled_from(["gpus@host-1", "gpus@host-2"]),
    hours,
    st.sampled_from(["gpus", "other"]),
    st.booleans(),
)


@pytest.fixture(scope="module")
def one_ledger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Ledger, Path]]:
    """A ledger for all examples: making one takes longer than all the rest."""
    path = tmp_path_factory.mktemp("ledger") / "ledger.db"
    with Ledger.open(f"sqlite:///{path}") as ledger:
        yield ledger, path


@settings(deadline=None)
@given(written=st.lists(records, max_size=12), purges=st.lists(hours, min_size=1, max_size=3))
def test_past_policies_and_chains_survive_any_purges(
    one_ledger: tuple[Ledger, Path],
    written: list[tuple[str, int, str, bool]],
    purges: list[int],
) -> None:
    """The clocks of two workers differ, and their records may be of one moment."""
    ledger, path = one_ledger
    with closing(sqlite3.connect(path)) as connection, connection:
        for table in (decisions, decision_anchors, purged_policies):
            connection.execute(str(sa.delete(table)))
    for number, (writer, hour, pool, is_policy) in enumerate(written):
        ledger.log(Logged(writer, [_decision(number, hour, pool, is_policy)]))
    asked = [(pool, at(hour + half)) for pool in ("gpus", "other", None) for hour in HOURS
             for half in (0, 0.5)]  # fmt: skip
    before = [ledger.policy_text_at(pool, moment) for pool, moment in asked]
    heads = {check.writer: check.head for check in ledger.check_decisions(KEY)}
    for number, hour in enumerate(purges):
        assert not purge_before(ledger, at(hour), KEY, at(20 + number)).problems
        checks = ledger.check_decisions(KEY)
        assert {check.writer: check.head for check in checks} == heads
        assert [check.problem for check in checks] == [None] * len(heads)
        assert [ledger.policy_text_at(pool, moment) for pool, moment in asked] == before


def _decision(number: int, hour: int, pool: str, is_policy: bool) -> Decision:
    decision = replace(make_decision(number, decided_at=at(hour)), pool=pool)
    if not is_policy:
        return decision
    text = {POLICY_TEXT: f"of record {number}"}
    return replace(decision, kind=DecisionKind.POLICY_CHANGED, numbers=text)
