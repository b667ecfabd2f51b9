"""The log of decisions in the ledger: in order, once, and with what it decides."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import sqlalchemy as sa

from gpu_core.adapters.ledger import Ledger
from gpu_core.adapters.ledger.database import Logged
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.model.decision_chain import POLICY_TEXT, Decision, DecisionKind
from gpu_core.testing.builders.attempts import admit, at, make_attempt, make_run
from tests.gpu_core.decisions.model.test_decision_chain import make_decision

WRITER = "gpus@host-1"


def logged(*numbers: int, writer: str = WRITER) -> Logged:
    """These decisions of a writer."""
    return Logged(writer, [make_decision(number) for number in numbers])


def kept(ledger: Ledger) -> list[tuple[str, int, str]]:
    """Which records are there: writer, number, id."""
    return [(link.writer, link.number, link.decision_id) for link in ledger.decisions()]


def test_each_writer_has_a_chain_and_a_record_is_written_once(ledger: Ledger) -> None:
    ledger.log(logged(1, 2))
    ledger.log(logged(2, 3, 3))
    ledger.log(logged(9, writer="other"))
    assert kept(ledger) == [
        (WRITER, 1, "d-1"),
        (WRITER, 2, "d-2"),
        (WRITER, 3, "d-3"),
        ("other", 1, "d-9"),
    ]
    assert [check.problem for check in ledger.check_decisions()] == [None, None]


def test_writers_of_one_chain_at_the_same_time_have_one_order(ledger_url: str) -> None:
    """A worker that has lost its lease, and the one that acts."""
    with Ledger.open(ledger_url) as ours, Ledger.open(ledger_url) as theirs:
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(lambda n: (ours, theirs)[n % 2].log(logged(n)), range(24)))
        (check,) = ours.check_decisions()
    assert (check.records, check.head.number, check.problem) == (24, 24, None)


def test_an_admission_is_in_the_log_if_the_attempt_holds_its_gpus(ledger: Ledger) -> None:
    """Another worker has started the run already: neither an attempt nor a decision is added."""
    admit(ledger, make_attempt("run-1"))
    records = [
        (make_run("run-1"), make_attempt("run-1", attempt_id="late")),
        (make_run("run-2"), make_attempt("run-2")),
    ]
    decided = Logged(WRITER, [make_decision(decision_id=a.attempt_id) for _, a in records])
    assert ledger.admit(records, decided) == {"run-2/1"}
    assert kept(ledger) == [(WRITER, 1, "run-2/1")]


def test_a_preemption_is_in_the_log_once(ledger: Ledger) -> None:
    admit(ledger, make_attempt())
    for number in (1, 2):
        ledger.mark_draining(
            "run-1/1",
            requested_at=at(1),
            reason=EndReason.PREEMPTED,
            deadline_at=at(2),
            message="more urgent",
            decided=logged(number),
        )
    assert kept(ledger) == [(WRITER, 1, "d-1")]


def test_the_last_policy_of_a_writer(ledger: Ledger) -> None:
    assert ledger.last_policy(WRITER, at(0)) is None
    for number, digest in ((1, "a"), (2, "b")):
        kind = DecisionKind.POLICY_CHANGED
        numbers = {"sha256": digest, POLICY_TEXT: None}
        ledger.log(Logged(WRITER, [make_decision(number, kind=kind, numbers=numbers)]))
    ledger.log(logged(3))
    assert ledger.last_policy(WRITER, at(0)) == "b"
    assert ledger.last_policy("other", at(0)) is None
    assert ledger.last_policy(WRITER, at(9)) is None


@pytest.mark.parametrize(
    ("pool", "hours", "want"),
    [
        pytest.param("gpus", 1.5, "one", id="the newest before"),
        pytest.param("gpus", 2, "two", id="from its first moment on"),
        pytest.param("gpus", 9, "two", id="one without a text is passed over"),
        pytest.param("gpus", 0, "one", id="before the first one, the first"),
        pytest.param("other", 9, None, id="the default one"),
        pytest.param(None, 2.7, None, id="of any pool"),
        pytest.param("third", 9, "none", id="of a pool that has noted none"),
    ],
)
def test_the_policy_that_was_in_force(
    ledger: Ledger, pool: str | None, hours: float, want: str | None
) -> None:
    changes = [
        policy_change(1, 1, "gpus", {POLICY_TEXT: "one"}),
        policy_change(2, 2, "gpus", {POLICY_TEXT: "two"}),
        policy_change(3, 2.5, "other", {POLICY_TEXT: None}),
        policy_change(4, 3, "gpus", {"sha256": "of an earlier version"}),
    ]
    ledger.log(Logged(WRITER, changes))
    found = ledger.policy_text_at(pool, at(hours))
    assert ("none" if found is None else found.text) == want


def policy_change(number: int, hours: float, pool: str, numbers: dict[str, str | None]) -> Decision:
    change = make_decision(number, kind=DecisionKind.POLICY_CHANGED, numbers=numbers)
    return replace(change, decided_at=at(hours), pool=pool)


@pytest.mark.parametrize(
    ("change", "want"),
    [
        pytest.param(
            "UPDATE decisions SET message = replace(message, 'GPU', 'gPU') WHERE number = 2",
            "record 2 (d-2) was changed after it was written",
            id="one byte",
        ),
        pytest.param(
            "DELETE FROM decisions WHERE number = 2",
            "record 3 (d-3) follows record 1: records between them are missing",
            id="a record",
        ),
    ],
)
def test_a_manual_change_in_the_database_is_found(ledger: Ledger, change: str, want: str) -> None:
    ledger.log(logged(1, 2, 3))
    with ledger._writer.begin() as connection:
        assert connection.execute(sa.text(change)).rowcount == 1
    (check,) = ledger.check_decisions()
    assert check.problem == want


def test_the_decisions_about_one_run(ledger: Ledger) -> None:
    other = make_decision(2, flow_run_id="run-2", kind=DecisionKind.REFUSED)
    ledger.log(Logged(WRITER, [make_decision(1), other]))
    assert [link.decision_id for link in ledger.decisions(flow_run_id="run-2")] == ["d-2"]
    assert [link.decision_id for link in ledger.decisions(kind="Held")] == ["d-1"]


def test_a_purge_cuts_the_beginning_of_each_chain_and_its_writer_continues(ledger: Ledger) -> None:
    """On each database. A clock was ahead at record 2: only what is before it goes."""
    late = make_decision(2, decided_at=at(10))
    ledger.log(Logged(WRITER, [make_decision(1), late, make_decision(3), make_decision(4)]))
    ledger.log(logged(9, writer="other"))
    cuts = ledger.purgeable_decisions(at(5))
    assert cuts == {WRITER: 1}
    key = b"a key of the platform team"
    assert ledger.purge_decisions(cuts, key, at(20)) == {WRITER: 1}
    assert ledger.purge_decisions(cuts, key, at(20)) == {}
    ledger.log(logged(5))
    assert [number for writer, number, _ in kept(ledger) if writer == WRITER] == [2, 3, 4, 5]
    checks = ledger.check_decisions(key)
    assert [(c.writer, c.records, c.purged, c.problem) for c in checks] == [
        (WRITER, 4, 1, None),
        ("other", 1, 0, None),
    ]


def test_a_report_of_a_past_month_has_its_policy_after_a_purge(ledger: Ledger) -> None:
    changes = [policy_change(n, 10 * n, "gpus", {POLICY_TEXT: str(n)}) for n in (1, 2, 3)]
    ledger.log(Logged(WRITER, changes))
    before = [ledger.policy_text_at("gpus", at(hours)) for hours in (5, 15, 25, 35)]
    cuts = ledger.purgeable_decisions(at(29))
    assert ledger.purge_decisions(cuts, b"a key of the platform team", at(40)) == {WRITER: 2}
    assert [ledger.policy_text_at("gpus", at(hours)) for hours in (5, 15, 25, 35)] == before
