"""Makes the pictures of the README from a quickstart: `python -m tests.support.readme_images`.

It takes some minutes: everything on the pictures is a run that has just ended.
"""

import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from PIL import Image

from tests.support.browser import Page, browser

IMAGES = Path("docs/images")
_COLORS = 48
_RUN = re.compile(r"(http://\S+)/runs/flow-run/(\S+)")
_COMPARISON = re.compile(r"http://\S+/#/compare-runs\S+")
# Without the assistant at the side of the page, from the names of the runs down to their cost.
_SHOW_COST = """
document.querySelectorAll('[aria-label*="lose"]').forEach(button => button.click());
[...document.querySelectorAll('*')]
  .filter(each => each.textContent.trim() === 'Run details').pop().scrollIntoView();
"""
_UP = "The servers are still running"


@contextmanager
def quickstart(folder: Path) -> Iterator[str]:
    """What a quickstart printed, while its servers are up."""
    log = folder / "quickstart.log"
    command = [sys.executable, "-m", "gpu_core.cli", "quickstart", "--keep"]
    with log.open("w") as output:
        process = subprocess.Popen(
            [*command, "--folder", str(folder / "quickstart")], stdout=output, stderr=output
        )
    try:
        while _UP not in (printed := log.read_text()):
            try:
                process.wait(1)
            except subprocess.TimeoutExpired:
                continue
            raise SystemExit(f"the quickstart ended before its servers were up:\n{printed}")
        yield printed
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


def take(printed: str, page: Page) -> None:
    """The page of the preempted run's attempts, and MLflow's comparison of the trainings."""
    address, flow_run_id = _found(_RUN, printed).groups()
    wanted = {"flow_run_id": {"any_": [flow_run_id]}, "key": {"any_": ["gpu-attempts"]}}
    found = httpx.post(f"{address}/api/artifacts/filter", json={"artifacts": wanted}).json()
    page.open(f"{address}/artifacts/artifact/{found[0]['id']}", 1240, 690)
    page.wait_for("Total", "Preempted", "Completed")
    _save(page, IMAGES / "run-page.png")

    page.open(_found(_COMPARISON, printed).group(), 1240, 1080)
    page.wait_for("Comparing 2 Runs", "cost/total_usd")
    page.evaluate(_SHOW_COST)
    _save(page, IMAGES / "mlflow-compare.png")


def _found(pattern: re.Pattern[str], printed: str) -> re.Match[str]:
    match = pattern.search(printed)
    if match is None:
        raise SystemExit(f"the quickstart printed no {pattern.pattern}:\n{printed}")
    return match


def _save(page: Page, path: Path) -> None:
    """Save what the window shows with a palette: a fifth of the size, and the text as sharp."""
    page.screenshot(path)
    with Image.open(path) as picture:
        picture.convert("RGB").quantize(_COLORS).save(path, optimize=True)


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with quickstart(folder) as printed, browser(folder / "profile") as page:
            take(printed, page)


if __name__ == "__main__":
    main()
