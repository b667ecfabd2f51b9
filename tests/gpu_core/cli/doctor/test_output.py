"""What people and programs read of findings."""

import pytest

from gpu_core.cli.doctor.output import as_text, redacted
from gpu_core.decisions.checks.doctor.finding import ok, warning
from gpu_core.worker.startup.secrecy import Secrets


@pytest.mark.parametrize("password", ["two  blanks", "a tab\there", "two\nlines"])
def test_a_secret_with_blanks_is_hidden(password):
    secrets = Secrets()
    secrets.add([password])
    text = f"it refuses {password}!"
    found = redacted(warning("store.checkpoints", text, text, [text]), secrets.hidden)
    assert {found.message, found.remedy, *found.details} == {"it refuses ***!"}


@pytest.mark.parametrize("columns", [40, 80])
def test_every_line_fits_the_terminal(columns, monkeypatch):
    monkeypatch.setattr("gpu_core.cli.shared.terminal.terminal_width", lambda: columns)
    found = [ok("prefect.api", "answers"), warning("prefect.queues", "no queue is there", "add it")]
    lines = as_text(found, with_details=True).splitlines()
    assert max(map(len, lines)) <= columns
    assert " ".join(" ".join(lines).split()).endswith("1 ok, 1 warning, 0 failed, 0 unknown")
