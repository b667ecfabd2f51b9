"""Which part of the catalog a user wants to see."""

import pytest

from gpu_core.decisions.catalog.selection import Selection, selected
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.testing.builders.catalog import make_catalog, make_row

CATALOG = make_catalog(
    p9_large=make_row(80.0, {"a": 16.0}),
    g9_large=make_row(4.0, gpu_type="t4", gpu_count=4),
)


@pytest.mark.parametrize(
    ("selection", "want"),
    [
        pytest.param(
            Selection(),
            [("a100-80gb", 2_000_000), ("a100-80gb", 10_000_000), ("t4", 1_000_000)],
            id="everything, by GPU type and price of a GPU",
        ),
        pytest.param(Selection(gpu_types=("t4",)), [("t4", 1_000_000)], id="one GPU type"),
        pytest.param(
            Selection(capacity_types=("spot",), providers=("aws",)),
            [("a100-80gb", 2_000_000)],
            id="one capacity type",
        ),
        pytest.param(
            Selection(gpu_types=("t4",), capacity_types=("spot",)), [], id="both at once: nothing"
        ),
    ],
)
def test_what_is_wanted_is_selected(selection, want):
    assert want == [
        (CATALOG.instance_type(o).gpu_type, CATALOG.micro_usd_per_gpu_hour(o))
        for o in selected(CATALOG, selection)
    ]


def test_unknown_names_are_reported_all_at_once():
    with pytest.raises(InvalidInput) as caught:
        selected(CATALOG, Selection(gpu_types=("a100-80g",), regions=("us-esat-1",)))
    first, second = str(caught.value).splitlines()
    assert first == (
        "gpu-type is not in the catalog (got 'a100-80g'). Did you mean 'a100-80gb'? "
        "Allowed: a100-80gb, t4."
    )
    assert second.startswith("region is not in the catalog (got 'us-esat-1')")
