"""The whole quickstart as one test, and what is left of it when it is interrupted."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from tests.support.browser import Page, browser
from tests.support.nightly_report import report, without_picture
from tests.support.waiting import wait_for

# Far longer than a busy machine takes until a quickstart has ended.
_STOP_S = 240.0

pytestmark = [pytest.mark.quickstart, pytest.mark.timeout(1800)]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Where a quickstart keeps everything; nothing of it may live afterwards."""
    yield tmp_path / "quickstart"
    left = list(processes_in(tmp_path / "quickstart"))
    for process in left:
        process.kill()
    assert not left, f"left running: {left}"


def start(folder: Path, output: Path, **environment: str) -> subprocess.Popen[bytes]:
    """Start the quickstart in this clone."""
    with output.open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "gpu_core.cli", "quickstart", "--folder", str(folder)],
            env={**os.environ, **environment},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def processes_in(folder: Path) -> Iterator[psutil.Process]:
    """Living processes that belong to the quickstart in this folder."""
    for process in psutil.process_iter():
        try:
            home = process.environ().get("PREFECT_HOME", "")
            if home.startswith(str(folder)) and process.status() != psutil.STATUS_ZOMBIE:
                yield process
        except (psutil.Error, OSError):
            continue


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """What one whole quickstart says. Its servers are up while these tests run; then all stops."""
    folder = tmp_path_factory.mktemp("whole")
    output = folder / "output"
    # Settings of the user's own world must not leak in.
    story = start(folder / "quickstart", output, PREFECT_API_URL="http://127.0.0.1:9/api", KEEP="1")
    try:
        wait_for(
            lambda: (
                story.poll() is not None or b"The servers are still running" in output.read_bytes()
            ),
            "the story is over",
            timeout_s=540,
        )
        yield output.read_text()
    finally:
        os.kill(story.pid, signal.SIGINT)
        code = story.wait(timeout=_STOP_S)
        left = list(processes_in(folder))
        for process in left:
            process.kill()
    assert not left, f"left running: {left}"
    assert code == 0, output.read_text()


@pytest.fixture(scope="module")
def page(reported: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A browser that looks at the quickstart's pages."""
    assert "The servers are still running" in reported
    with browser(tmp_path_factory.mktemp("browser") / "profile") as opened:
        yield opened


# One quickstart serves all of them, where tests run in several processes too.
whole = pytest.mark.xdist_group("quickstart")
at_any_width = pytest.mark.parametrize("width_px", [400, 1440])


def link(reported: str, name: str) -> str:
    """The address that the quickstart gives for this."""
    found = re.search(rf"^  {name} +(http\S+)$", reported, re.MULTILINE)
    assert found, f"no address of {name}: {reported}"
    return found[1]


def attempts_page(run_page: str) -> str:
    """The artifact that the page of this run lists as `gpu-attempts`."""
    server, _, run = run_page.partition("/runs/flow-run/")
    wanted = {"flow_run_id": {"any_": [run]}, "key": {"any_": ["gpu-attempts"]}}
    found = httpx.post(
        f"{server}/api/artifacts/filter", json={"artifacts": wanted, "sort": "CREATED_DESC"}
    ).json()
    return f"{server}/artifacts/artifact/{found[0]['id']}"


@whole
def test_it_fits_100_columns_and_ends_with_four_links_and_one_next_step(reported: str) -> None:
    lines = reported.splitlines()
    assert [line for line in lines if len(line) > 100 and "http" not in line] == []
    links = [line for line in lines if re.match(r"^  \S.*  +http", line)]
    assert len(links[links.index(next(x for x in links if "Preempted flow run" in x)) :]) == 4
    assert sum(line.startswith("To run your own flow on GPUs, ") for line in lines) == 1


@whole
def test_the_whole_story(reported: str) -> None:
    """Everything runs, the resumed training is exact, the report finds its anomaly."""
    assert "yes the training run was preempted once" in reported
    assert "yes the second attempt was restored from a checkpoint" in reported
    assert "yes weights: " in reported
    assert "  NO  " not in reported
    assert "WaitingForVictims: " in reported
    assert "Preempted: 'urgent' has a higher priority" in reported
    assert "Generated history." in reported
    assert "generated-forgotten-sweep" in reported


@whole
def test_the_nightly_report_is_the_one_that_the_docs_work_out(reported: str) -> None:
    """Every number of it, on whichever day this runs."""
    server, _, artifact = link(reported, "Nightly report").partition("/artifacts/artifact/")
    found = httpx.get(f"{server}/api/artifacts/{artifact}").json()
    assert without_picture(found["data"]) == report()


@whole
@pytest.mark.browser
@at_any_width
def test_the_page_of_the_preempted_run_says_why_it_was_and_what_it_waited_for(
    reported: str, page: Page, width_px: int
) -> None:
    page.open(link(reported, "Preempted flow run"), width_px)
    page.wait_for("train-512")
    preempted = "Preempted: 'urgent' has a higher priority"
    for reason in (preempted, "WaitingForGpus: Waiting for 4 GPUs"):
        page.wait_for(reason)
        assert page.is_in_width(reason), reason


@whole
@pytest.mark.browser
@at_any_width
def test_the_attempts_of_the_preempted_run_are_in_view_with_cost_and_total(
    reported: str, page: Page, width_px: int
) -> None:
    (total,) = re.findall(r"│ train-512 +│.*│ +(\$[0-9.]+) │.*│.*│$", reported, re.MULTILINE)
    page.open(attempts_page(link(reported, "Preempted flow run")), width_px)
    page.wait_for(f"Total: {total}", "'urgent' has a higher priority", "Preempted", "Completed")
    page.wait_for("Open its MLflow run")
    first, second = re.findall(r"\b[12] (\$[0-9.]+) (?:Preempted|Completed)", page.text())
    parts_usd = float(first[1:]) + float(second[1:])
    assert parts_usd == pytest.approx(float(total[1:]), abs=0.0002 if parts_usd < 1 else 0.02)
    for text in (f"Total: {total}", "'urgent' has a higher priority", first, second, "Completed"):
        assert page.is_in_view(text), text


@whole
@pytest.mark.browser
@at_any_width
def test_the_link_of_the_nightly_report_leads_to_the_report(
    reported: str, page: Page, width_px: int
) -> None:
    page.open(link(reported, "Nightly report"), width_px)
    page.wait_for("GPU cost on", "Generated data.", "generated-forgotten-sweep", "By team")
    (headline,) = re.findall(r"\$[0-9.,]+ for [0-9.]+ GPU-hours in \d+ runs?", page.text())
    assert page.is_in_view(headline)


@whole
@pytest.mark.browser
def test_mlflow_compares_the_preempted_training_with_its_twin(reported: str, page: Page) -> None:
    page.open(link(reported, "Training comparison"), 1440)
    page.wait_for("Comparing 2 Runs", "train-512-undisturbed", "cost/total_usd", "test_accuracy")
    for name in ("train-512", "train-512-undisturbed", "cost/total_usd"):
        assert page.is_in_width(name), name
    assert "train-128" not in page.text()


def test_an_interrupted_quickstart_stops_all_that_it_started(folder: Path, tmp_path: Path) -> None:
    """Ctrl-C in the middle of the work: servers, worker and runs are gone."""
    output = tmp_path / "output"
    story = start(folder, output)
    wait_for(lambda: b"submitted to" in output.read_bytes(), "work was submitted", timeout_s=180)
    assert any(processes_in(folder))

    os.kill(story.pid, signal.SIGINT)

    assert story.wait(timeout=_STOP_S) == 1


def test_a_folder_with_other_things_in_it_is_left_alone(tmp_path: Path) -> None:
    """A mistyped --folder deletes nothing."""
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("five years")
    story = start(mine, tmp_path / "output")

    assert story.wait(timeout=_STOP_S) == 2

    assert (
        "--folder contains files that were not created by the quickstart"
        in (tmp_path / "output").read_text()
    )
    assert (mine / "thesis.txt").read_text() == "five years"
