"""Prices compared with those of the same hardware elsewhere."""

from datetime import timedelta

import pytest

from gpu_core.adapters.files.catalog_file import shipped_catalog
from gpu_core.decisions.catalog.plausible import current_prices, doubtful_spot, implausible
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.testing.builders.catalog import SEEN, make_catalog, make_key, make_row

YEAR_LATER = SEEN + timedelta(days=365)


def error_of(catalog, key):
    prices = current_prices(catalog)
    return implausible(key, prices[key], prices, catalog.instance_types)


@pytest.mark.parametrize(
    ("row", "want"),
    [
        pytest.param({"on_demand": 10.0, "spot": {"a": 0.5}}, None, id="5% of on-demand"),
        pytest.param({"on_demand": 10.0, "spot": {"a": 0.49}}, "$0.5000 to $20.00", id="under"),
        pytest.param(
            {"on_demand": None, "spot": {"a": 0.1, "b": 3.0, "c": 3.0}},
            "as the median elsewhere is $3.00",
            id="without on-demand the siblings count",
        ),
        pytest.param(
            {"on_demand": None, "spot": {"a": 0.079}}, "Allowed: $0.0800 or more", id="alone"
        ),
        pytest.param(
            {"on_demand": None, "spot": dict.fromkeys("abcd", 0.00001)},
            "(got '$0.000010'). Allowed: $0.0800 or more",
            id="fillers that agree with each other",
        ),
        pytest.param({"on_demand": None, "spot": {"a": 0.08}}, None, id="a cent for each GPU"),
    ],
)
def test_spot(row, want):
    error = error_of(make_catalog(p9_large=make_row(**row)), make_key("p9.large", "a"))
    assert (error is None) if want is None else (want in str(error))


def test_the_shipped_catalog_is_plausible():
    catalog = shipped_catalog()
    errors = [error for key in catalog.offerings if (error := error_of(catalog, key)) is not None]
    assert errors == []


@pytest.mark.parametrize(
    ("cheap", "days", "want"),
    [
        pytest.param(1.49, 8, 3_000_000, id="under half"),
        pytest.param(1.5, 8, None, id="half"),
        pytest.param(1.0, 7, None, id="seen in the last week"),
    ],
)
def test_an_old_outlier_is_doubtful(cheap, days, want):
    row = make_row(10.0, {"a": cheap, "b": 3.0, "c": 3.0, "d": 3.0})
    offerings = make_catalog(p9_large=row).offerings
    now = SEEN + timedelta(days=days)
    assert doubtful_spot(offerings[make_key("p9.large", "a")], offerings.values(), now) == want


def test_two_siblings_are_too_few():
    offerings = make_catalog(p9_large=make_row(10.0, {"a": 1.0, "b": 3.0, "c": 3.0})).offerings
    assert (
        doubtful_spot(offerings[make_key("p9.large", "a")], offerings.values(), YEAR_LATER) is None
    )


def test_a_sheet_names_zones_by_their_ids():
    with pytest.raises(InvalidInput) as caught:
        make_catalog(p9_large=make_row(10.0, {"us-east-1a": 3.0}))
    assert "is the name of a zone (got 'us-east-1a'). Allowed: its id" in str(caught.value)
