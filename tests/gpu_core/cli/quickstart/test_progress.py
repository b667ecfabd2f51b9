"""In a log the quickstart shows what it waits for, and for how long it has."""

import io
import itertools
import re
from types import SimpleNamespace

import pytest
from rich.console import Console

from gpu_core.cli.quickstart import progress
from gpu_core.cli.quickstart.progress import WaitIndicator
from tests.support.waiting import wait_for


def test_each_line_shows_how_long_the_wait_has_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    # A clock that goes on by a second each time that it is read.
    clock = SimpleNamespace(monotonic=itertools.count().__next__)
    monkeypatch.setattr(progress, "time", clock)
    output = io.StringIO()
    with WaitIndicator(Console(file=output), "MLflow is starting"):
        wait_for(lambda: output.getvalue().count("\n") >= 2, "two lines")
    first, second = output.getvalue().splitlines()[:2]
    shown = [re.fullmatch(r"  \.\.\. (\d+)s: MLflow is starting", line) for line in (first, second)]
    assert all(shown)
    assert len({match.group(1) for match in shown if match}) == 2
