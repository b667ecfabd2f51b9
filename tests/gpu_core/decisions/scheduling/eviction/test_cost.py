"""What it costs to free so many GPUs: against every set."""

import itertools
from functools import reduce

from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.scheduling.eviction.cost import Loss, cheapest_covers

OFFERS = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 5)), max_size=6).map(
    lambda drawn: [
        (gpus, Loss(lost=lost, victims=1, ids=(f"r{i}",))) for i, (gpus, lost) in enumerate(drawn)
    ]
)


@given(OFFERS)
def test_each_number_of_gpus_is_covered_by_the_cheapest_of_all_sets(offers):
    """Up to all that the offers give together; sets that cost the same in order of their ids."""
    sets = [
        (sum(gpus for gpus, _ in chosen), reduce(Loss.plus, (loss for _, loss in chosen), Loss()))
        for size in range(len(offers) + 1)
        for chosen in itertools.combinations(offers, size)
    ]
    most = max(given_back for given_back, _ in sets)
    want_covers = [
        min(loss for given_back, loss in sets if given_back >= gpus) for gpus in range(most + 1)
    ]
    assert cheapest_covers(offers) == want_covers
