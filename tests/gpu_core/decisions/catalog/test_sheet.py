"""Price sheets: read strictly, written back the same."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.catalog.sheet import parse_sheet, to_sheet
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.testing.builders.catalog import SEEN, make_key, make_row, make_sheet


def with_price(**price):
    row = make_row()
    row["prices"] = [
        {"region": "r", "capacity_type": "on-demand", "usd_per_hour": 1, **price},
    ]
    return make_sheet(x=row)


@pytest.mark.parametrize(
    ("data", "want_message"),
    [
        pytest.param(None, "prices is empty", id="an empty file"),
        pytest.param(
            make_sheet(x=make_row(gpu_cuont=8)),
            "instance_types.x.gpu_cuont is not a known name. Did you mean 'gpu_count'?",
            id="a misspelled key",
        ),
        pytest.param(
            with_price(usd_per_hour=0),
            "instance_types.x.prices.0.usd_per_hour is zero (got 0). Allowed: more than 0. The "
            "price must not be 0. Please specify the hourly cost or remove the line",
            id="nothing is free",
        ),
        pytest.param(
            with_price(usd_per_hour=-1),
            "usd_per_hour is not an amount in USD (got -1). Allowed: 0 to 1,000,000,000",
            id="a negative price",
        ),
        pytest.param(
            with_price(usd_per_hour="1.5"), "usd_per_hour is not a price", id="a price in quotes"
        ),
        pytest.param(
            with_price(capacity_type="Spot"),
            "capacity_type is not one of the choices (got 'Spot'). Did you mean 'spot'?",
            id="a capacity type in capitals",
        ),
        pytest.param(
            with_price(as_of="last week"), "as_of is not a date (got 'last week')", id="no date"
        ),
        pytest.param(
            with_price(as_of=datetime(2026, 1, 1)),  # noqa: DTZ001 # the mistake that is tested
            "as_of has no time zone",
            id="a time without its zone",
        ),
        pytest.param(
            with_price(until="2026-08-01"),
            "instance_types.x.prices.0.until is before as_of",
            id="seen last before it was seen first",
        ),
        pytest.param(
            with_price(from_memory=True, source="a page"),
            "instance_types.x.prices.0.from_memory contradicts the source (got 'a page')",
            id="from memory and from a page",
        ),
        pytest.param(
            make_sheet(x=make_row(gpu_count=0)), "gpu_count is too small", id="no GPU at all"
        ),
    ],
)
def test_a_mistake_is_named(data, want_message):
    with pytest.raises(InvalidInput) as caught:
        parse_sheet(data)
    assert want_message in str(caught.value)


def test_the_same_price_twice_is_refused_and_a_history_is_not():
    sheet = with_price()
    prices = sheet["instance_types"]["x"]["prices"]
    prices.append(prices[0] | {"usd_per_hour": 2})
    with pytest.raises(
        InvalidInput,
        match=r"prices\.1 is specified more than once\. Please specify a different `as_of`",
    ):
        parse_sheet(sheet)
    prices[1]["as_of"] = "2026-08-01"
    (offering,) = parse_sheet(sheet).offerings.values()
    assert [price.micro_usd_per_hour for price in offering.prices] == [2_000_000, 1_000_000]


def test_the_line_of_a_mistake_is_named():
    sheet = with_price(usd_per_hour=0)
    with pytest.raises(InvalidInput, match=r"^mine\.yaml:7: instance_types\.x\.prices\.0\.usd"):
        parse_sheet(sheet, "mine.yaml", {"instance_types.x.prices.0.usd_per_hour": 7})


def test_a_price_without_a_date_has_that_of_the_sheet():
    offering = parse_sheet(make_sheet(x=make_row())).offerings[make_key("x")]
    assert offering.price.seen_from == offering.price.seen_until == SEEN


@pytest.mark.parametrize(
    ("fields", "want_source"),
    [
        pytest.param({}, "a test", id="the sheet's"),
        pytest.param({"source": "a page"}, "a page", id="its own"),
        pytest.param({"from_memory": True}, None, id="from memory: none"),
    ],
)
def test_the_source_of_a_price(fields, want_source):
    (offering,) = parse_sheet(with_price(**fields)).offerings.values()
    assert offering.price.source == want_source


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        pytest.param({}, True, id="of that day"),
        pytest.param({"as_of_is_earliest": True}, False, id="of that day at the earliest"),
        pytest.param(
            {"as_of_is_earliest": True, "until": "2026-09-02"}, True, id="seen again on a known day"
        ),
    ],
)
def test_whether_the_age_of_a_price_is_known(fields, want):
    (offering,) = parse_sheet(with_price(as_of="2026-09-01", **fields)).offerings.values()
    assert offering.price.is_age_known is want


def test_source_and_date_of_a_price_are_written_and_read_again():
    for fields in ({"source": "a page"}, {"from_memory": True}, {"as_of_is_earliest": True}):
        catalog = parse_sheet(with_price(**fields))
        assert parse_sheet(to_sheet(catalog, "aws", SEEN)) == catalog


zones = st.dictionaries(
    st.sampled_from(["a", "b"]), st.integers(1, 10**9).map(lambda micro: micro / 1e6), max_size=2
)
rows = st.builds(
    make_row,
    on_demand=st.one_of(st.none(), st.integers(1, 10**9).map(lambda micro: micro / 1e6)),
    spot=zones,
    gpu_type=st.sampled_from(["t4", "my-gpu"]),
    gpu_share_milli=st.sampled_from([125, 1000]),
    gpu_memory_mib=st.one_of(st.none(), st.integers(1, 10**6)),
    vcpus=st.one_of(st.none(), st.integers(1, 512)),
)


@given(rows=st.dictionaries(st.sampled_from(["x", "y", "z"]), rows, max_size=3))
def test_what_is_written_is_read_again_to_the_same_catalog(rows):
    catalog = parse_sheet(make_sheet(**rows))
    assert parse_sheet(to_sheet(catalog, "aws", datetime(2026, 11, 1, tzinfo=UTC))) == catalog
