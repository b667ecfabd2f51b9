"""The export in the hands of others' validators, in an environment of their own.

`requirements/focus.txt` has them: focus-data-toolkit for FOCUS 1.4, and focus-validator for 1.0.
"""

import csv
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from gpu_core.decisions.costs.billing.focus import COLUMNS, FocusRow, FocusVersion, focus_rows
from tests.gpu_core.decisions.costs.billing.test_focus import march
from tests.support.tools import do_without

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


LOCK = Path(__file__).parents[5] / "requirements" / "focus.txt"
_INSTALL_S = 600.0


@pytest.fixture(scope="module")
def focus_validators(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The validators' environment, from the package index, which is all that tests download."""
    folder = tmp_path_factory.mktemp("focus") / "venv"
    uv = [sys.executable, "-m", "uv", "--quiet"]
    install = ["pip", "install", "--require-hashes", "--no-deps", "--python", folder, "-r", LOCK]
    for command in (["venv", "--python", sys.executable, folder], install):
        done = subprocess.run(
            [*uv, *command], capture_output=True, text=True, check=False, timeout=_INSTALL_S
        )
        if done.returncode != 0:
            why = " ".join(done.stderr.split())[:200]
            do_without(f"the FOCUS validators cannot be installed: {why}", "it needs an index")
    return folder


def written(path: Path, columns: Sequence[str], rows: Sequence[FocusRow]) -> Path:
    """The rows as a file."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    return path


def check_1_4(validators: Path, path: Path) -> subprocess.CompletedProcess[str]:
    """What the toolkit says of a file."""
    return subprocess.run(
        [validators / "bin" / "focus-toolkit", "validate", path, "--dataset", "cost-and-usage"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_the_toolkit_takes_1_4_and_finds_what_is_wrong(
    focus_validators: Path, tmp_path: Path
) -> None:
    rows, columns = list(focus_rows(march())), COLUMNS[FocusVersion.V1_4]
    checked = check_1_4(focus_validators, written(tmp_path / "bill.csv", columns, rows))
    assert checked.returncode == 0, checked.stdout
    wrong = [rows[0] | {"ChargeCategory": "GPU"}, *rows[1:]]
    checked = check_1_4(focus_validators, written(tmp_path / "wrong.csv", columns, wrong))
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
    focus_validators: Path, tmp_path: Path, change: FocusRow, want_failures: int
) -> None:
    rows = [row | dict.fromkeys(DEMANDED) for row in focus_rows(march())]
    rows = [row | {alias: row[name] for alias, name in ALIASES.items()} for row in rows]
    rows[0] |= change
    columns = (*COLUMNS[FocusVersion.V1_2], *DEMANDED, *ALIASES)
    path, report = written(tmp_path / "bill.csv", columns, rows), tmp_path / "report.xml"
    # It reads its list of currencies in the folder that it runs in, and always exits with 0.
    (packages,) = (focus_validators / "lib").glob("python3*/site-packages")
    subprocess.run(
        [
            focus_validators / "bin" / "focus-validator", "--data-file", path,
            "--validate-version", "1.0",
            "--output-type", "unittest", "--output-destination", report,
        ],
        cwd=packages, capture_output=True, check=True,
    )  # fmt: skip
    assert f'tests="133" failures="{want_failures}"' in report.read_text(encoding="utf-8")
