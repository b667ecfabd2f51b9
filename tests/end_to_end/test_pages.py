"""What people see: the pages of Prefect's own UI, in a real browser."""

import json

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from gpu_core.cli.main import main
from tests.end_to_end.conftest import FLOWS, closed
from tests.support.browser import browser
from tests.support.waiting import wait_for

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


def test_five_questions_have_their_answers_on_the_pages_and_in_the_terminal(
    pool, journal, tmp_path, capsys
):
    """Why does it wait, when does it start, what did it cost, who holds the GPUs, what ended it?"""
    release = tmp_path / "release"
    deployment = pool.deploy(f"{FLOWS}:do_nothing", **journal.variables(600, release))
    busy = pool.submit(deployment, "busy [red]", gpu_count=8, team="vision", max_duration="1h")
    pool.start_worker()
    pool.wait_until(busy, "Running")
    waiting = pool.submit(deployment, "waiting", gpu_count=4)
    pool.wait_until(waiting, "WaitingForGpus")

    with temporary_settings({PREFECT_API_URL: f"{pool.ui_url}/api"}):
        wait_for(lambda: shown(pool, capsys, "--json")["line"], "the queue is published")
        document = shown(pool, capsys, "--json")
        text = shown(pool, capsys)
    (holder,), (entry,) = document["holders"], document["line"]
    assert (holder["run"], holder["team"], holder["gpus"]) == ("busy [red]", "vision", 8)
    assert holder["accrued_micro_usd"] > 0
    assert holder["may_run_until"] > holder["held_since"]
    assert entry["reason"] == "WaitingForGpus"
    assert entry["expected_start_at"] is not None
    assert text.index("busy [red]") < text.index("1  waiting") < text.index("WaitingForGpus: ")

    with browser(tmp_path / "profile") as page:
        for width_px in (400, 1024, 1440):
            page.open(f"{pool.ui_url}/artifacts/key/gpu-queue-{pool.name}", width_px)
            page.wait_for("Running flow runs", "busy [red]", "Cost so far", "WaitingForGpus")
            # Markdown splits the text of a name at its brackets.
            assert page.is_in_width("busy"), width_px
            assert page.is_in_width("Cost so far"), width_px
        release.touch()
        pool.wait_until(busy, "Completed")
        wait_for(lambda: closed(pool, busy, 1), "its attempt is closed")
        for width_px in (400, 1440):
            page.open(f"{pool.ui_url}/runs/flow-run/{busy}", width_px)
            page.wait_for("Completed", "Attempt 1 started on 8 × a100-80gb")
        for width_px in (400, 1440):
            page.open(attempts_page(pool, busy), width_px)
            page.wait_for("Held for", "Admitted", "Energy", "nothing")
            for text in ("Held for", "Admitted (UTC)", "Energy", "Started from", "nothing"):
                assert page.is_in_width(text), (text, width_px)
        page.open(f"{pool.ui_url}/runs/flow-run/{busy}", 1440)
        page.wait_for("Completed", "Attempt 1 started on 8 × a100-80gb")
        page.click("Artifacts")
        page.wait_for("in 1 attempt, last: Completed")
        assert page.is_in_view("in 1 attempt, last: Completed")


def attempts_page(pool, run):
    """The artifact of this run with its attempts."""
    wanted = {"flow_run_id": {"any_": [run]}, "key": {"any_": ["gpu-attempts"]}}
    body = {"artifacts": wanted, "sort": "CREATED_DESC"}
    newest, *_ = pool.call("POST", "/artifacts/filter", body)
    return f"{pool.ui_url}/artifacts/artifact/{newest['id']}"


def shown(pool, capsys, *options):
    """What `prefect-gpu queue` prints of the pool."""
    capsys.readouterr()
    assert main(["queue", "--pool", pool.name, *options]) == 0
    text = capsys.readouterr().out
    return json.loads(text) if options else text
