"""Why did `prefect deploy` refuse? Its last line says it; no user wants its traceback."""

import pytest

from gpu_core.cli.setup.project import _reason

TRACEBACK = """Deploying train
An exception occurred.
Traceback (most recent call last):
  File "a.py", line 1, in <module>
ModuleNotFoundError: No module named 'a'

"""


@pytest.mark.parametrize(
    ("output", "want"),
    [
        pytest.param(
            TRACEBACK,
            ("Deploying train\nAn exception occurred.", "ModuleNotFoundError: No module named 'a'"),
            id="a traceback",
        ),
        pytest.param(
            "Running steps\nno such step\n", ("Running steps", "no such step"), id="words"
        ),
        pytest.param("", ("", "no output"), id="nothing"),
    ],
)
def test_the_last_line_is_the_reason(output, want):
    assert _reason(output) == want
