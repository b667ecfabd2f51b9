"""What becomes of the catalog after a look: all of it, or nothing."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.catalog.offerings import Catalog
from gpu_core.decisions.catalog.refresh import MOST_PRICES, CoveredPlaces, Observation, refreshed
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.testing.builders.catalog import SEEN, make_catalog, make_key, make_row

DAY = timedelta(days=1)
NOW = SEEN + DAY

ON_DEMAND = CoveredPlaces(provider="aws", region="us-east-1", capacity_type="on-demand")
SPOT = CoveredPlaces(provider="aws", region="us-east-1", capacity_type="spot")


def make_observation(prices, scopes=(ON_DEMAND, SPOT), catalog=None):
    found = catalog or make_catalog(p9_large=make_row(10.0, {"a": 3.0}))
    return Observation(
        instance_types=found.instance_types,
        micro_usd_per_hour=prices,
        scopes=scopes,
        source="another test",
    )


def before() -> Catalog:
    return make_catalog(p9_large=make_row(10.0, {"a": 3.0}))


def history(catalog, key):
    return [
        (p.micro_usd_per_hour, (p.seen_from - SEEN) / DAY, (p.seen_until - SEEN) / DAY)
        for p in catalog.offerings[key].prices
    ]


def test_a_price_that_changed_is_added_to_its_history():
    after = refreshed(
        before(),
        make_observation({make_key("p9.large"): 9_000_000, make_key("p9.large", "a"): 3_000_000}),
        NOW,
    )
    assert history(after.catalog, make_key("p9.large")) == [(10_000_000, 0, 0), (9_000_000, 1, 1)]
    assert history(after.catalog, make_key("p9.large", "a")) == [(3_000_000, 0, 1)]
    (change,) = after.changes
    assert change.key == make_key("p9.large")
    assert (change.before_micro_usd_per_hour, change.after_micro_usd_per_hour) == (
        10_000_000,
        9_000_000,
    )
    assert after.catalog.sources["aws"] == "another test"


def test_each_price_keeps_the_source_that_it_was_read_from():
    seen = {make_key("p9.large"): 9_000_000}
    after = refreshed(before(), make_observation(seen, (ON_DEMAND,)), NOW).catalog
    sources = [price.source for price in after.offerings[make_key("p9.large")].prices]
    assert sources == ["a test", "another test"]
    assert after.offerings[make_key("p9.large", "a")].price.source == "a test"


def test_a_price_from_memory_holds_no_refresh_back_and_judges_no_other():
    row = make_row(1000.0, {"a": 3.0})
    row["prices"][0]["from_memory"] = True
    catalog = make_catalog(p9_large=row)
    seen = {make_key("p9.large"): 10_000_000, make_key("p9.large", "a"): 3_000_000}
    after = refreshed(catalog, make_observation(seen), NOW).catalog
    price = after.offerings[make_key("p9.large")].price
    assert (price.micro_usd_per_hour, price.source) == (10_000_000, "another test")


def test_what_vanished_is_kept_and_not_offered_and_comes_back():
    gone = refreshed(before(), make_observation({make_key("p9.large"): 10_000_000}), NOW)
    offering = gone.catalog.offerings[make_key("p9.large", "a")]
    assert not offering.is_offered
    assert not gone.catalog.is_available(offering)
    assert gone.changes[0].after_micro_usd_per_hour is None
    back = make_observation(
        {make_key("p9.large"): 10_000_000, make_key("p9.large", "a"): 2_000_000}
    )
    returned = refreshed(gone.catalog, back, NOW + DAY).catalog
    assert returned.offerings[make_key("p9.large", "a")].is_offered
    assert history(returned, make_key("p9.large", "a"))[0][0] == 3_000_000


def test_what_could_not_be_looked_at_stays_as_it_is():
    after = refreshed(before(), make_observation({}, scopes=()), NOW)
    assert after.catalog.offerings == before().offerings
    assert after.changes == ()


def test_other_regions_and_providers_stay_as_they_are():
    elsewhere = CoveredPlaces(provider="aws", region="eu-west-1", capacity_type="on-demand")
    assert refreshed(before(), make_observation({}, scopes=(elsewhere,)), NOW).changes == ()


@pytest.mark.parametrize(
    ("prices", "want_message"),
    [
        pytest.param({make_key("p9.large"): -1}, "has no price (got -1)", id="a negative price"),
        pytest.param({make_key("p9.large"): 0}, "has no price (got 0)", id="nothing is free"),
        pytest.param(
            {make_key("p9.large"): 100_000_000},
            "aws p9.large us-east-1 on-demand moved from $10.00 to $100.00 per hour. Allowed: less "
            "than 10 times up or down. Please verify the price and then use --accept-large-changes",
            id="ten times as much",
        ),
        pytest.param(
            {make_key("p9.large", "a"): 300_000},
            "moved from $3.00 to $0.3000 per hour",
            id="a tenth",
        ),
        pytest.param(
            {make_key("p10.large"): 1}, "has an unknown instance type", id="of an unknown type"
        ),
    ],
)
def test_nonsense_is_refused_as_a_whole(prices, want_message):
    catalog = before()
    fine = {make_key("p9.large"): 9_000_000, make_key("p9.large", "a"): 3_000_000}
    with pytest.raises(InvalidInput) as caught:
        refreshed(catalog, make_observation(fine | prices), NOW)
    assert want_message in str(caught.value)
    assert catalog == before()


def test_a_large_change_can_be_confirmed_but_nonsense_cannot():
    large = make_observation({make_key("p9.large"): 100_000_000})
    after = refreshed(before(), large, NOW, accepts_large_changes=True)
    assert history(after.catalog, make_key("p9.large"))[-1][0] == 100_000_000
    with pytest.raises(InvalidInput, match="has no price"):
        refreshed(
            before(),
            make_observation({make_key("p9.large"): 0}),
            NOW,
            accepts_large_changes=True,
        )


def test_a_clock_that_went_back_is_noticed():
    with pytest.raises(InvalidInput, match="has a date in the future"):
        refreshed(before(), make_observation({make_key("p9.large"): 1_000_000}), SEEN - DAY)


def test_the_history_is_bounded():
    catalog = before()
    for day in range(1, MOST_PRICES + 5):
        seen = make_observation({make_key("p9.large"): 10_000_000 + day % 2}, scopes=())
        catalog = refreshed(catalog, seen, SEEN + day * DAY).catalog
    prices = catalog.offerings[make_key("p9.large")].prices
    assert len(prices) == MOST_PRICES
    assert prices[-1].seen_until == SEEN + (MOST_PRICES + 4) * DAY


looks = st.dictionaries(
    st.sampled_from([make_key("p9.large"), make_key("p9.large", "a"), make_key("p9.large", "b")]),
    st.integers(1_000_000, 9_000_000),
)


@given(look=looks)
def test_looking_twice_changes_nothing_more(look):
    once = refreshed(before(), make_observation(look), NOW, accepts_large_changes=True)
    twice = refreshed(once.catalog, make_observation(look), NOW)
    assert twice.catalog == once.catalog
    assert twice.changes == ()


@given(look=looks)
def test_no_offering_is_forgotten_and_what_was_seen_is_offered(look):
    after = refreshed(before(), make_observation(look), NOW, accepts_large_changes=True).catalog
    assert set(after.offerings) == set(before().offerings) | set(look)
    assert {key for key, o in after.offerings.items() if o.is_offered} == set(look)
    assert all(after.offerings[key].price.micro_usd_per_hour == usd for key, usd in look.items())


@pytest.mark.parametrize(
    ("zone", "micro_usd", "want"),
    [
        pytest.param("b", 10, "has an invalid price (got '$0.000010')", id="a cent is lost"),
        pytest.param("b", 499_999, "Allowed: $0.5000 to $20.00 per hour", id="over 95% saved"),
        pytest.param("b", 20_000_001, "as on-demand is $10.00", id="twice on-demand"),
        pytest.param(
            "us-east-1b",
            3_000_000,
            "must specify a zone ID instead of a zone name",
            id="a zone's name",
        ),
    ],
)
def test_a_price_that_cannot_be_is_refused_also_where_none_was_known(zone, micro_usd, want):
    look = {make_key("p9.large"): 10_000_000, make_key("p9.large", zone): micro_usd}
    with pytest.raises(InvalidInput) as caught:
        refreshed(before(), make_observation(look), NOW)
    assert want in str(caught.value)


@given(micro_usd=st.integers(500_000, 20_000_000))
def test_a_price_in_bounds_is_taken(micro_usd):
    look = {make_key("p9.large"): 10_000_000, make_key("p9.large", "b"): micro_usd}
    after = refreshed(before(), make_observation(look), NOW).catalog
    assert after.offerings[make_key("p9.large", "b")].price.micro_usd_per_hour == micro_usd
