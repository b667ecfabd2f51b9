"""The table of names agrees with the lists of dcgm-exporter's releases."""

import os
import re
from pathlib import Path

import pytest

from gpu_core.decisions.telemetry.metric_names import MEMORY_REST, QUANTITIES

# What the help text of a field says of its unit, and how many of ours that is.
UNITS = {"MHz": 1e6, "mJ": 1e-3, "%": 0.01, "MiB": 2.0**20, "C": 1.0, "W": 1.0}

# Fields that the lists do not name, of DCGM's own list of fields.
UNLISTED = {
    *("DCGM_FI_DEV_FB_TOTAL", "DCGM_FI_DEV_ENFORCED_POWER_LIMIT", "DCGM_FI_DEV_SLOWDOWN_TEMP"),
    *("DCGM_FI_DEV_SHUTDOWN_TEMP", "DCGM_FI_DEV_ROW_REMAP_PENDING"),
}


def fields(path):
    """Name and help text of every field in a list, those that are off by default, too."""
    rows = (line.lstrip("# ").split(",", 2) for line in path.read_text().splitlines())
    return {row[0].strip(): row[2] for row in rows if len(row) == 3 and row[0].startswith("DCGM_")}


@pytest.mark.parametrize("release", ["4.4.0-4.5.0", "4.5.3-4.8.2", "head-2026-05"])
def test_names_and_units_are_those_of_the_release(release):
    path = Path(os.environ.get("PREFECT_GPU_DATA", "")) / "dcgm" / f"default-counters-{release}.csv"
    if not path.exists():
        pytest.skip("needs the lists of fields: set PREFECT_GPU_DATA to the data folder")
    listed = fields(path)
    sources = [source for quantity in QUANTITIES for source in quantity.dcgm]
    sources += [source for source in MEMORY_REST if source.name in listed]
    for source in sources:
        if source.name in UNLISTED:
            continue
        unit = re.search(r"\(in (\S+)\)", listed[source.name])
        assert source.factor == (UNITS[unit[1]] if unit else 1.0), source.name


@pytest.mark.parametrize("quantity", QUANTITIES, ids=lambda quantity: quantity.field)
def test_names_in_base_units_need_no_factor(quantity):
    assert all(source.factor == 1 for source in (*quantity.dcgm_base, *quantity.nvidia_smi))
