"""What can be had."""

import pytest

from gpu_core.decisions.catalog.offerings import combined
from gpu_core.testing.builders.catalog import make_catalog, make_key, make_row


@pytest.mark.parametrize(
    ("on_demand", "spot", "want_available"),
    [
        pytest.param(10.0, 3.0, True, id="spot costs less"),
        pytest.param(10.0, 10.0, False, id="the price for on-demand means that there is no spot"),
        pytest.param(10.0, 11.0, False, id="more than on-demand means the same"),
        pytest.param(28.54493, 28.5449, False, id="lists round to a hundredth of a cent"),
        pytest.param(21.95764, 21.8535, True, id="a little less than on-demand is a price"),
        pytest.param(None, 3.0, True, id="an instance type that is sold as spot only"),
    ],
)
def test_spot_is_there_where_it_costs_less(on_demand, spot, want_available):
    catalog = make_catalog(p9_large=make_row(on_demand, {"a": spot}))
    assert catalog.is_available(catalog.offerings[make_key("p9.large", "a")]) is want_available


def test_the_on_demand_price_of_the_zone_comes_before_that_of_the_region():
    row = make_row(10.0, {"a": 3.0})
    row["prices"].append(
        {"region": "us-east-1", "zone": "a", "capacity_type": "on-demand", "usd_per_hour": 2.0}
    )
    catalog = make_catalog(p9_large=row)
    assert not catalog.is_available(catalog.offerings[make_key("p9.large", "a")])


def test_a_later_catalog_replaces_what_an_earlier_one_says_of_an_offering():
    ours = make_catalog(p9_large=make_row(7.0))
    both = combined((make_catalog(p9_large=make_row(10.0), g9_large=make_row(1.0)), ours))
    assert both.offerings[make_key("p9.large")].price.micro_usd_per_hour == 7_000_000
    assert make_key("g9.large") in both.offerings


def test_an_offering_is_written_as_people_say_it():
    assert str(make_key("p9.large", "use1-az4")) == "aws p9.large us-east-1 use1-az4 spot"
    assert str(make_key("p9.large")) == "aws p9.large us-east-1 on-demand"
