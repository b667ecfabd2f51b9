"""The export in the hands of others' validators, each in an environment of its own.

`PREFECT_GPU_FOCUS_TOOLS` is a virtual environment with focus-data-toolkit 0.14.1,
focus-validator 1.0.0, multimethod before 2, numpy before 2 and pandas before 3.
"""

import csv
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from gpu_core.decisions.costs.focus import COLUMNS, FocusRow, FocusVersion, focus_rows
from tests.gpu_core.decisions.costs.test_focus import march

ALIASES = {
    "InvoiceIssuer": "InvoiceIssuerName",
    "Provider": "ProviderName",
    "Publisher": "PublisherName",
    "ResourceID": "ResourceId",
    "ChargeType": "ChargeCategory",
}
"""What the validator of 1.0 calls columns that its specification calls otherwise."""
DEMANDED = ("RegionId", "RegionName")
"""Columns that 1.0 demands of all, and 1.2 only of those who have such things."""


@pytest.fixture(scope="module")
def tools() -> Path:
    """The folder of the validators' environment."""
    folder = Path(os.environ.get("PREFECT_GPU_FOCUS_TOOLS", ""))
    if not (folder / "bin" / "focus-toolkit").is_file():
        pytest.skip("needs FOCUS validators: set PREFECT_GPU_FOCUS_TOOLS to their environment")
    return folder


def written(path: Path, columns: Sequence[str], rows: Sequence[FocusRow]) -> Path:
    """The rows as a file."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    return path


def check_1_4(tools: Path, path: Path) -> subprocess.CompletedProcess[str]:
    """What the toolkit says of a file."""
    return subprocess.run(
        [tools / "bin" / "focus-toolkit", "validate", path, "--dataset", "cost-and-usage"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_the_toolkit_takes_1_4_and_finds_what_is_wrong(tools: Path, tmp_path: Path) -> None:
    rows, columns = list(focus_rows(march())), COLUMNS[FocusVersion.V1_4]
    checked = check_1_4(tools, written(tmp_path / "bill.csv", columns, rows))
    assert checked.returncode == 0, checked.stdout
    wrong = [rows[0] | {"ChargeCategory": "GPU"}, *rows[1:]]
    checked = check_1_4(tools, written(tmp_path / "wrong.csv", columns, wrong))
    assert checked.returncode != 0
    assert "ChargeCategory" in checked.stdout


@pytest.mark.parametrize(
    ("change", "want_failures"),
    [
        pytest.param({}, 0, id="as it is"),
        pytest.param({"PricingCategory": "Spot"}, 1, id="a category that is none"),
    ],
)
def test_the_validator_of_1_0_finds_nothing(
    tools: Path, tmp_path: Path, change: FocusRow, want_failures: int
) -> None:
    rows = [row | dict.fromkeys(DEMANDED) for row in focus_rows(march())]
    rows = [row | {alias: row[name] for alias, name in ALIASES.items()} for row in rows]
    rows[0] |= change
    columns = (*COLUMNS[FocusVersion.V1_2], *DEMANDED, *ALIASES)
    path, report = written(tmp_path / "bill.csv", columns, rows), tmp_path / "report.xml"
    # It reads its list of currencies in the folder that it runs in, and always exits with 0.
    (packages,) = (tools / "lib").glob("python3*/site-packages")
    subprocess.run(
        [
            tools / "bin" / "focus-validator", "--data-file", path, "--validate-version", "1.0",
            "--output-type", "unittest", "--output-destination", report,
        ],
        cwd=packages, capture_output=True, check=True,
    )  # fmt: skip
    assert f'tests="133" failures="{want_failures}"' in report.read_text(encoding="utf-8")
