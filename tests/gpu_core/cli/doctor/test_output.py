"""What people and programs read of findings."""

import pytest

from gpu_core.cli.doctor.output import redacted
from gpu_core.decisions.checks.doctor.finding import warning
from gpu_core.worker.startup.secrecy import Secrets


@pytest.mark.parametrize("password", ["two  blanks", "a tab\there", "two\nlines"])
def test_a_secret_with_blanks_is_hidden(password):
    secrets = Secrets()
    secrets.add([password])
    text = f"it refuses {password}!"
    found = redacted(warning("store.checkpoints", text, text, [text]), secrets.hidden)
    assert {found.message, found.remedy, *found.details} == {"it refuses ***!"}
