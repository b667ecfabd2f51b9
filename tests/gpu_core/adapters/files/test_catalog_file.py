"""Catalogs on disk."""

import json
from pathlib import Path

import pytest

from gpu_core.adapters.files.catalog_file import (
    load_catalog,
    load_sheet,
    save_catalog,
    shipped_catalog,
)
from gpu_core.decisions.catalog.gpu_types import GPU_TYPES
from gpu_core.decisions.catalog.offerings import OfferingKey
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.testing.builders.catalog import SEEN, make_key, make_row, make_sheet

OWN = """\
version: 1
provider: cellar
source: what we paid, over four years
as_of: 2026-11-01
instance_types:
  dgx-1:
    gpu_type: a100-80gb
    gpu_count: 8
    prices:
      - {region: cellar, capacity_type: reserved, usd_per_hour: 6.5}
"""


def test_the_shipped_snapshot_knows_the_speed_of_every_gpu_that_it_offers() -> None:
    catalog = shipped_catalog()
    assert {t.gpu_type for t in catalog.instance_types.values()} <= set(GPU_TYPES)
    assert set(GPU_TYPES) - {t.gpu_type for t in catalog.instance_types.values()} == set()


def test_the_shipped_snapshot_has_known_prices_and_no_spot_where_there_is_none() -> None:
    offerings = shipped_catalog().offerings
    p5 = make_key("p5.48xlarge")
    assert offerings[p5].price.micro_usd_per_hour == 55_040_000
    assert shipped_catalog().is_available(offerings[make_key("p5.48xlarge", "use1-az6")])
    assert not shipped_catalog().is_available(offerings[make_key("p5.48xlarge", "use1-az4")])


def test_each_price_of_the_shipped_snapshot_has_a_source_and_a_date() -> None:
    prices = [p for offering in shipped_catalog().offerings.values() for p in offering.prices]
    assert {(price.source, price.is_date_exact) for price in prices} == {
        ("SkyPilot v8/aws/vms.csv at 00148f2", False),
        ("Karpenter pricing_aws of 2026-01-19", True),
    }
    dates = {(price.source, price.seen_from.date().isoformat()) for price in prices}
    assert {date for _, date in dates} == {"2025-12-01", "2026-01-19"}
    assert len(dates) == 2


def test_a_part_of_a_gpu_is_one_gpu_with_less_memory() -> None:
    types = {key.name: t for key, t in shipped_catalog().instance_types.items()}
    assert (types["g6f.2xlarge"].gpu_count, types["g6f.2xlarge"].gpu_share_milli) == (1, 250)
    assert types["g6f.2xlarge"].gpu_memory_mib == 5722


def test_reported_memory_is_that_of_the_table_of_gpu_types() -> None:
    for row in shipped_catalog().instance_types.values():
        if row.gpu_share_milli == 1000:
            assert row.gpu_memory_mib == GPU_TYPES[row.gpu_type].reported_memory_mib, row.key


def test_without_a_file_the_snapshot_counts_and_own_sheets_are_added(tmp_path: Path) -> None:
    sheet = tmp_path / "own.yaml"
    sheet.write_text(OWN)
    catalog = load_catalog(tmp_path / "none.json", [sheet])
    own = OfferingKey("cellar", "dgx-1", "cellar", None, "reserved")
    assert catalog.offerings[own].price.micro_usd_per_hour == 6_500_000
    assert make_key("p5.48xlarge") in catalog.offerings


def test_a_saved_catalog_is_read_again_and_comes_before_the_snapshot(tmp_path: Path) -> None:
    path = tmp_path / "new" / "catalog.json"
    source = tmp_path / "aws.json"
    source.write_text(json.dumps(make_sheet(p9_large=make_row(10.0, {"a": 3.0}))))
    catalog = load_sheet(source)
    save_catalog(path, catalog, "aws", SEEN)
    assert load_catalog(path) == catalog
    prices = [line for line in path.read_text().splitlines() if "usd_per_hour" in line]
    assert len(prices) == 2


@pytest.mark.parametrize(
    ("name", "text", "want_message"),
    [
        pytest.param("x.json", "{", "x.json:1 is not valid JSON", id="half a file"),
        pytest.param("x.yaml", "a: [", "is not valid YAML", id="no YAML"),
        pytest.param(
            "x.yaml",
            OWN.replace("6.5", "-6.5"),
            "x.yaml:10: instance_types.dgx-1.prices.0.usd_per_hour is not an amount in USD",
            id="the line of a mistake in a list",
        ),
        pytest.param(
            "x.yaml",
            OWN.replace("gpu_count: 8", "gpu_count: 8\n    gpu_count: 4"),
            "x.yaml:9: instance_types.dgx-1.gpu_count comes twice. Remove one. The first is in",
            id="a key twice",
        ),
    ],
)
def test_a_file_that_cannot_be_used(
    tmp_path: Path, name: str, text: str, want_message: str
) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(InvalidInput) as caught:
        load_sheet(path)
    assert want_message in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    for name in ("x.json", "x.yaml"):
        with pytest.raises(InvalidInput, match=r"x\.\w+ does not exist. Name a .* price sheet"):
            load_sheet(tmp_path / name)
