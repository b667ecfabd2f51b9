"""What people see: the pages of Prefect's own UI, in a real browser."""

import pytest

from tests.end_to_end.conftest import FLOWS
from tests.support.browser import browser

pytestmark = pytest.mark.browser


def test_the_page_of_a_waiting_run_says_why_it_waits(pool, journal, tmp_path):
    """The badge is the reason, and the log says the rest, on a telephone and on a wide screen."""
    deployment = pool.deploy(f"{FLOWS}:do_nothing", **journal.variables(seconds=600))
    busy = pool.submit(deployment, "busy", gpu_count=8)
    pool.start_worker()
    pool.wait_until(busy, "Running")
    waiting = pool.submit(deployment, "waiting", gpu_count=4)
    pool.wait_until(waiting, "WaitingForGpus")

    with browser(tmp_path / "profile") as page:
        for width_px in (400, 1440):
            page.open(f"{pool.ui_url}/runs/flow-run/{waiting}", width_px)
            page.wait_for("WaitingForGpus: Waiting for 4 GPUs of any type")
            assert page.is_in_view("WaitingForGpus"), width_px
            assert page.is_in_width("WaitingForGpus: Waiting for 4 GPUs of any type"), width_px
