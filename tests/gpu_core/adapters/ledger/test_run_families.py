"""Runs that start other runs, on each database: an end lists the costs of all that it changes."""

from gpu_core.adapters.ledger import Ledger
from gpu_core.adapters.ledger.cost_slices import CostQuestion
from gpu_core.adapters.ledger.database import UnloggedEnd
from gpu_core.decisions.costs.reports.cost_report import cost_report
from gpu_core.decisions.costs.usage.usage_cost import Window
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.testing.builders.attempts import admit, at, make_attempt, make_run

END = UnloggedEnd("host-1", at(1))


def start(ledger: Ledger, *names: str) -> None:
    for name in names:
        admit(ledger, make_attempt(name), make_run(name))


def end(ledger: Ledger, name: str, parent: str | None, unlogged: UnloggedEnd = END) -> None:
    """An hour of an A10G, started by another run."""
    ledger.close_attempt(
        f"{name}/1",
        released_at=at(1),
        end_reason=EndReason.COMPLETED,
        end_message=None,
        exit_code=0,
        is_charged_failure=False,
        parent_flow_run_id=parent,
        unlogged=unlogged,
    )


def family(ledger: Ledger, name: str) -> list[str]:
    return sorted(run.flow_run_id for run, _ in ledger.family_of(name))


def test_a_family_has_each_run_once_also_those_started_in_turn(ledger: Ledger) -> None:
    start(ledger, "top", "child", "twin", "grandchild", "stranger")
    for name, parent in (
        ("grandchild", "child"),
        ("child", "top"),
        ("twin", "top"),
        ("stranger", "elsewhere"),
    ):
        end(ledger, name, parent)
    assert family(ledger, "top") == ["child", "grandchild", "top", "twin"]
    assert family(ledger, "child") == ["child", "grandchild"]
    assert family(ledger, "stranger") == ["stranger"]


def test_a_run_that_is_not_in_the_ledger_ends_the_chain(ledger: Ledger) -> None:
    """`top` started a run of another pool, without this ledger, which started `below`."""
    start(ledger, "top", "below")
    end(ledger, "top", None)
    end(ledger, "below", "of-another-pool")
    assert family(ledger, "top") == ["top"]


def test_damaged_parents_that_make_a_circle_end(ledger: Ledger) -> None:
    start(ledger, "one", "two")
    end(ledger, "one", "two")
    end(ledger, "two", "one")
    assert family(ledger, "one") == ["one", "two"]


def test_an_end_lists_the_costs_of_the_runs_above_it_at_their_hosts(ledger: Ledger) -> None:
    """Those of a pool without a ledger of ours are not listed."""
    start(ledger, "child", "grandchild")
    admit(ledger, make_attempt("top", host="host-2"), make_run("top"))
    end(ledger, "child", "top")
    for cost in ledger.unlogged_costs("gpus", "host-1", at(1)):
        ledger.note_logged(cost)
    end(ledger, "grandchild", "child")
    listed = {
        host: [c.flow_run_id for c in ledger.unlogged_costs("gpus", host, at(1))]
        for host in ("host-1", "host-2")
    }
    assert listed == {"host-1": ["child", "grandchild"], "host-2": ["top"]}


def test_a_run_that_is_admitted_again_keeps_its_parent(ledger: Ledger) -> None:
    start(ledger, "child")
    end(ledger, "child", "top")
    admit(ledger, make_attempt("child", number=2, admitted_at=at(2)), make_run("child"))
    found = ledger.run("child")
    assert found is not None
    assert found.parent_flow_run_id == "top"


def test_a_report_by_parent_adds_up(ledger: Ledger) -> None:
    start(ledger, "child", "twin", "alone")
    for name, parent in (("child", "top"), ("twin", "top"), ("alone", None)):
        end(ledger, name, parent)
    window, keys = Window(at(0), at(1)), ("parent_run",)
    asked = CostQuestion(window=window, keys=keys, now=at(2))
    report = cost_report(window, keys, *ledger.cost_slices(asked))
    assert [(row.keys, row.micro_usd) for row in report.rows] == [
        (("top",), 2_000_000),
        ((None,), 1_000_000),
    ]
    assert report.total.micro_usd == 3_000_000
