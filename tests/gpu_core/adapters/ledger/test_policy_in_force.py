"""The policy that a report is about, where a person names none."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_core.adapters.ledger import Ledger
from gpu_core.adapters.ledger.database import Logged
from gpu_core.adapters.ledger.policy_in_force import policy_in_file, policy_in_force
from gpu_core.decisions.model.decision_chain import POLICY_TEXT, Decision, DecisionKind
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.policy.policy import Policy
from gpu_core.testing.builders.attempts import at

DEFAULT = Policy(version=1)
LIMITED = "version: 1\nlimits: {max_gpus_per_run: 4}\n"


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as opened:
        yield opened


def note(ledger: Ledger, text: str | None) -> None:
    change = Decision(
        decision_id="change",
        decided_at=at(1),
        kind=DecisionKind.POLICY_CHANGED,
        pool="gpus",
        numbers={POLICY_TEXT: text},
    )
    ledger.log(Logged("a worker", [change]))


def test_the_workers_policy_counts(ledger: Ledger) -> None:
    note(ledger, LIMITED)
    found = policy_in_force(None, ledger, "gpus", at(2))
    assert found.policy.limits.max_gpus_per_run == 4
    assert found.origin == f"the policy in force since {at(1):%Y-%m-%d %H:%M} UTC, from the ledger"


def test_a_file_that_a_person_names_comes_first(ledger: Ledger, tmp_path: Path) -> None:
    note(ledger, LIMITED)
    path = tmp_path / "policy.yaml"
    path.write_text("version: 1\n")
    found = policy_in_force(policy_in_file(path), ledger, "gpus", at(2))
    assert (found.policy, found.origin) == (DEFAULT, f"the policy file {path}")


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param(None, "the default policy, in force since", id="no file"),
        pytest.param(
            "version: 1\nfuture: {}\n", "future is not a known name", id="of another version"
        ),
        pytest.param("{", "not valid YAML", id="damaged"),
    ],
)
def test_what_cannot_be_used_is_the_default_policy_and_says_why(
    ledger: Ledger, text: str | None, want: str
) -> None:
    note(ledger, text)
    found = policy_in_force(None, ledger, "gpus", at(2))
    assert found.policy == DEFAULT
    assert found.origin.startswith("the default policy, ")
    assert want in found.origin


def test_a_ledger_without_a_policy_has_the_default_one(ledger: Ledger) -> None:
    assert policy_in_force(None, ledger, "gpus", at(2)).policy == DEFAULT


def test_a_file_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"missing\.yaml"):
        policy_in_file(tmp_path / "missing.yaml")
