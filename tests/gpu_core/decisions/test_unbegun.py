"""Why a flow did not begin, as real output tells."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.unbegun import why_unbegun

# The ends of what Prefect 3.8.8 wrote in pods.
MODULE = """
ModuleNotFoundError: No module named 'no_such_module'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
prefect.exceptions.ScriptError: Script at 'flows/train.py' encountered an exception: \
ModuleNotFoundError("No module named 'no_such_module'")
02:15:33.266 | WARNING | Flow run 'r' - Runner failed to retrieve flow to execute on_crashed hooks
RuntimeError: Hook subprocess exited with status code 1.
"""
FILE = """
FileNotFoundError: [Errno 2] No such file or directory: '/opt/flows/train.py'

The above exception was the direct cause of the following exception:

prefect.exceptions.ScriptError: Script at 'flows/train.py' encountered an exception: \
FileNotFoundError(2, 'No such file or directory')
"""
FUNCTION = """
AttributeError: module 'flows' has no attribute 'no_such'
prefect.exceptions.MissingFlowError: Flow function with name 'no_such' not found in 'flows.py'.
RuntimeError: Function with name 'no_such' not found in 'flows.py'.
RuntimeError: Hook subprocess exited with status code 1.
"""
RAISES = """
prefect.exceptions.ScriptError: Script at 'flows/train.py' encountered an exception: \
KeyError('DATA')
"""
PULL_STEP = """
prefect.deployments.steps.core.StepExecutionError: Encountered error while running \
prefect.deployments.steps.git_clone
"""
NO_PREFECT = "/usr/local/bin/python: No module named prefect"
NO_API = (
    "    | httpx.ConnectError: All connection attempts failed\n    +----\nAn exception occurred."
)


@pytest.mark.parametrize(
    ("output", "want"),
    [
        pytest.param(
            MODULE, "its code cannot be imported: No module named 'no_such_module'", id="a module"
        ),
        pytest.param(FILE, "the file /opt/flows/train.py is not there", id="a file"),
        pytest.param(FUNCTION, "flows.py has no flow 'no_such'", id="a name"),
        pytest.param(RAISES, "loading flows/train.py failed: KeyError('DATA')", id="it raises"),
        pytest.param(
            PULL_STEP,
            "the deployment's pull step prefect.deployments.steps.git_clone failed",
            id="a pull step",
        ),
        pytest.param(NO_PREFECT, "Prefect is not where the run runs", id="an image of others"),
        pytest.param(NO_API, "Prefect's API does not answer it", id="the API"),
    ],
)
def test_the_reason_is_told_with_what_helps(output, want):
    found = why_unbegun(output.splitlines())
    assert found is not None
    assert found.startswith(f"The flow did not begin: {want}. ")
    assert found.endswith(".")


@given(st.lists(st.text("abc:'. \t", max_size=40), max_size=30))
def test_output_that_says_nothing_of_it_gives_no_reason(lines):
    assert why_unbegun(lines) is None


def test_an_error_that_quotes_a_document_is_cut():
    found = why_unbegun([f"ImportError: {'x' * 10_000}"])
    assert found is not None
    assert len(found) < 1_000
