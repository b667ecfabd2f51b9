"""What a run costs in addition to its machines."""

import pytest

from gpu_core.decisions.catalog.offerings import Catalog, OfferingKey, TransferPrices
from gpu_core.decisions.offerings.constraints import Constraints, DataPlace
from gpu_core.decisions.offerings.transfer_and_storage import storage_micro_usd, transfer_micro_usd

PRICES = TransferPrices(
    storage_micro_usd_per_gib_month=23_000,
    between_regions_micro_usd_per_gib=20_000,
    out_micro_usd_per_gib=90_000,
)
CATALOG = Catalog(transfer={"aws": PRICES, "cellar": TransferPrices()})
EAST = OfferingKey("aws", "x", "us-east-1", None, "on-demand")
MONTH_S = 2_629_800


@pytest.mark.parametrize(
    ("data_at", "want_micro_usd"),
    [
        pytest.param(DataPlace(provider="aws", region="us-east-1"), 0, id="in the same region"),
        pytest.param(DataPlace(provider="aws", region="us-west-2"), 2_000_000, id="another region"),
        pytest.param(DataPlace(provider="cellar", region="here"), None, id="an unknown price"),
        pytest.param(DataPlace(provider="other", region="here"), None, id="an unknown provider"),
        pytest.param(None, 0, id="where is not stated"),
    ],
)
def test_moving_100_gib(data_at, want_micro_usd):
    constraints = Constraints(data_gib=100.0, data_at=data_at)
    assert transfer_micro_usd(CATALOG, constraints, EAST) == want_micro_usd


def test_data_that_leaves_a_provider_costs_more():
    constraints = Constraints(data_gib=100.0, data_at=DataPlace(provider="aws", region="us-east-1"))
    elsewhere = EAST._replace(provider="cellar")
    assert transfer_micro_usd(CATALOG, constraints, elsewhere) == 9_000_000


@pytest.mark.parametrize(
    ("provider", "gib", "wall_s", "want_micro_usd"),
    [
        pytest.param("aws", 100.0, MONTH_S, 2_300_000, id="a month"),
        pytest.param("aws", 100.0, MONTH_S / 30, 76_667, id="a day"),
        pytest.param("cellar", 100.0, MONTH_S, None, id="an unknown price"),
        pytest.param("other", 0.0, MONTH_S, 0, id="nothing to keep"),
    ],
)
def test_keeping_data(provider, gib, wall_s, want_micro_usd):
    assert storage_micro_usd(CATALOG, EAST._replace(provider=provider), gib, wall_s) == (
        want_micro_usd
    )
