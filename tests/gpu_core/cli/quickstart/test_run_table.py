"""The table of runs that ends the quickstart."""

import pytest

from gpu_core.cli.quickstart.run_table import run_table
from gpu_core.decisions.costs.usage.usage_cost import run_cost
from gpu_core.testing.builders.attempts import at, make_attempt, make_run


@pytest.mark.parametrize(
    ("second", "want"),
    [
        pytest.param({}, ("all", "$2.00"), id="all runs have a price"),
        pytest.param(
            {"price_micro_usd_per_gpu_hour": None},
            ("all with a known price", "$1.00"),
            id="one has none: the others still have a sum",
        ),
    ],
)
def test_the_last_row_is_the_sum_of_what_has_a_price(second, want):
    costs = [
        run_cost(make_run(run_id), [make_attempt(run_id, released_at=at(1), **fields)], at(2))
        for run_id, fields in (("run-1", {}), ("run-2", second))
    ]
    table = run_table(costs)
    labels, sums = (list(table.columns[place].cells) for place in (0, 5))
    assert (labels[-1], sums[-1]) == want
