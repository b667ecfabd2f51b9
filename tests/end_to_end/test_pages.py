"""What people see: the pages of Prefect's own UI, in a real browser."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.end_to_end.conftest import FLOWS
from tests.support.tools import require

pytestmark = pytest.mark.browser

# Nothing but the page: no updates, no telemetry, no first-run questions.
QUIET = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]


def text_of(url: str, profile: Path) -> str:
    """The text of a page after its scripts have run."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    browser = require(found, "Chromium")
    page = subprocess.run(
        [
            browser,
            *QUIET,
            f"--user-data-dir={profile}",
            "--window-size=1400,1300",
            "--virtual-time-budget=15000",
            "--dump-dom",
            url,
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", page.stdout))


def test_the_page_of_a_waiting_run_says_why_it_waits(pool, journal, tmp_path):
    """The reason stands where its owner looks; the page shows the beginning of a long message."""
    deployment = pool.deploy(f"{FLOWS}:do_nothing", **journal.variables(seconds=600))
    busy = pool.submit(deployment, "busy", gpu_count=8)
    pool.start_worker()
    pool.wait_until(busy, "Running")
    waiting = pool.submit(deployment, "waiting", gpu_count=4)
    pool.wait_until(waiting, "AwaitingConcurrencySlot")

    page = text_of(f"{pool.ui_url}/runs/flow-run/{waiting}?tab=Details", tmp_path / "profile")

    assert "WaitingForGpus: Waiting for 4 GPUs of any type" in page
