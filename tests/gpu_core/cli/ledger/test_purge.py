"""`prefect-gpu ledger purge`, run as people run it: the rest verifies, and no change is hidden."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from gpu_core.adapters.ledger import Ledger
from gpu_core.adapters.ledger.database import Logged
from gpu_core.cli.main import main
from gpu_core.decisions.optimization.proposals.records import WRITER as PROPOSALS
from gpu_core.testing.builders.attempts import at
from tests.gpu_core.decisions.model.test_decision_chain import make_decision

WRITER, OTHER = "gpus@host-1", "gpus@host-2"
# Records 1 to 4 are of noon of 4 to 7 March 2026.
PURGE = ("purge", "--before", "2026-03-06")


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """Two chains: four days of one writer, and one old record of another."""
    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as opened:
        for number in range(1, 5):
            log(opened, WRITER, number)
        log(opened, OTHER, 11, day=0)
        yield opened


def log(ledger: Ledger, writer: str, number: int, day: int | None = None) -> None:
    """A decision at noon, days after 4 March."""
    moment = at(24 * (number - 1 if day is None else day))
    ledger.log(Logged(writer, [make_decision(number, decided_at=moment)]))


def run(folder: Path, *arguments: str, key: str | None = "a key of the platform team") -> int:
    command = ["ledger", *arguments, "--ledger", str(folder / "ledger.db")]
    if key is not None:
        (folder / "anchor.key").write_text(key)
        command += ["--anchor-key-file", str(folder / "anchor.key")]
    return main(command)


def change(ledger: Ledger, statement: str) -> None:
    with ledger._writer.begin() as connection:
        connection.execute(sa.text(statement))


def numbers(ledger: Ledger) -> list[tuple[str, int]]:
    return [(link.writer, link.number) for link in ledger.decisions()]


def test_old_records_go_and_the_rest_verifies_from_a_signed_anchor(
    ledger: Ledger, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The last record of each writer stays, however old it is; a later purge continues there."""
    assert run(tmp_path, *PURGE, "--dry-run") == 0
    assert "records up to 2 would be deleted" in capsys.readouterr().out
    assert len(numbers(ledger)) == 5
    assert run(tmp_path, *PURGE) == 0
    assert capsys.readouterr().out == f"{WRITER}: records up to 2 deleted (2)\n"
    assert numbers(ledger) == [(WRITER, 3), (WRITER, 4), (OTHER, 1)]
    log(ledger, WRITER, 5)
    assert run(tmp_path, "verify") == 0
    out = capsys.readouterr().out
    assert f"{WRITER}: 3 records fit together after a purge of 2, signed; the last hash" in out
    assert run(tmp_path, "verify", key=None) == 0
    assert "after a purge of 2, whose signature was not verified" in capsys.readouterr().out
    assert run(tmp_path, "purge", "--before", "2026-03-07") == 0
    assert run(tmp_path, "purge", "--before", "2026-03-07") == 0
    assert "No records found before this date." in capsys.readouterr().out
    assert numbers(ledger) == [(WRITER, 4), (WRITER, 5), (OTHER, 1)]
    assert run(tmp_path, "verify") == 0


def test_the_records_of_proposals_stay(
    ledger: Ledger, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each proposal that was ever applied is scored, and can be undone."""
    for number in (21, 22, 23):
        log(ledger, PROPOSALS, number, day=0)
    assert run(tmp_path, *PURGE) == 0
    assert PROPOSALS not in capsys.readouterr().out
    kept = [number for writer, number in numbers(ledger) if writer == PROPOSALS]
    assert kept == [1, 2, 3]
    assert run(tmp_path, "verify") == 0


@pytest.mark.parametrize(
    ("statement", "want"),
    [
        pytest.param(
            "DELETE FROM decisions WHERE number = 3", "record 4", id="a record after the anchor"
        ),
        pytest.param(
            "UPDATE decision_anchors SET number = 3, hash = (SELECT hash FROM decisions "
            "WHERE writer = 'gpus@host-1' AND number = 3)",
            "the anchor of the purge up to record 3 has a wrong signature",
            id="an anchor that was moved",
        ),
        pytest.param(
            "DELETE FROM decision_anchors",
            "record 3 (d-3) is the first: records before it are missing, or the anchor of their",
            id="no anchor",
        ),
        pytest.param(
            "UPDATE decision_anchors SET signature = X'ff'",
            "has a wrong signature: another key signed it, or it was changed",
            id="an anchor that is no text",
        ),
        pytest.param(
            "UPDATE decisions SET number = 2 WHERE number = 4",
            "record 2 (d-4) comes after record 2: it was inserted, or its number changed",
            id="a number that was purged",
        ),
        pytest.param(
            "UPDATE decisions SET number = 'x' WHERE number = 3",
            "record 4 (d-4) follows record 2: records between them are missing",
            id="a number that is none",
        ),
        pytest.param(
            "DELETE FROM decisions WHERE writer = 'gpus@host-1'",
            "all records after 2 are missing",
            id="nothing after the anchor",
        ),
        pytest.param(
            "UPDATE decisions SET message = 'other' WHERE number = 4", "changed", id="a change"
        ),
    ],
)
def test_what_was_changed_after_a_purge_is_found_and_no_purge_hides_it(
    ledger: Ledger,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    statement: str,
    want: str,
) -> None:
    assert run(tmp_path, *PURGE) == 0
    change(ledger, statement)
    before = numbers(ledger)
    capsys.readouterr()
    assert run(tmp_path, "verify") == 1
    assert want in capsys.readouterr().out
    assert run(tmp_path, "purge", "--before", "2026-03-08") == 1
    assert "No records were deleted" in capsys.readouterr().out
    assert numbers(ledger) == before


def test_another_key_did_not_sign_the_anchor(
    ledger: Ledger, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, *PURGE) == 0
    assert run(tmp_path, "verify", key="the key of another team") == 1
    assert "wrong signature" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("before", "key", "want"),
    [
        pytest.param("2026-03-06", None, "is required for signing the purged log", id="no key"),
        pytest.param("2026-03-06", "short", "has too short a key", id="a short key"),
        pytest.param(
            "2999-01-01", "a key of the platform team", "must not be in the future", id="future"
        ),
        pytest.param("6 March", "a key of the platform team", "is not a date", id="no day"),
    ],
)
def test_a_purge_that_cannot_be_done_deletes_nothing(
    ledger: Ledger,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    before: str,
    key: str | None,
    want: str,
) -> None:
    assert run(tmp_path, "purge", "--before", before, key=key) == 2
    assert want in capsys.readouterr().err
    assert len(numbers(ledger)) == 5
