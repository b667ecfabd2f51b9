"""Why a flow did not begin, as real output shows."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.attempts.startup_errors import why_unbegun

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


SYNTAX = """
SyntaxError: invalid syntax
prefect.exceptions.ScriptError: Script at '/flows/train.py' encountered an exception: \
SyntaxError('invalid syntax', ('/flows/train.py', 3, 11, 'def train(:\\n', 3, 12))
"""
IMPORTED_NAME = """
prefect.exceptions.ScriptError: Script at 'train.py' encountered an exception: \
ImportError("cannot import name 'no_such' from 'os' (/usr/lib/python3.11/os.py)")
"""
OPENCV = """
prefect.exceptions.ScriptError: Script at 'train.py' encountered an exception: \
ImportError('libGL.so.1: cannot open shared object file: No such file or directory')
"""
DRIVER = """
prefect.exceptions.ScriptError: Script at 'train.py' encountered an exception: \
ImportError('libcuda.so.1: cannot open shared object file: No such file or directory')
"""
UNDEFINED = """
prefect.exceptions.ScriptError: Script at 'train.py' encountered an exception: \
NameError("name 'bar' is not defined")
"""
NO_ATTRIBUTE = """
prefect.exceptions.ScriptError: Script at 'train.py' encountered an exception: \
AttributeError("module 'torch' has no attribute 'compille'")
"""
DATA = """
FileNotFoundError: [Errno 2] No such file or directory: '/data/train.csv'
prefect.exceptions.ScriptError: Script at 'flows/train.py' encountered an exception: \
FileNotFoundError(2, 'No such file or directory')
"""
HANDLED = """
ModuleNotFoundError: No module named 'wandb'
During handling of the above exception, another exception occurred:
urllib.error.URLError: <urlopen error [Errno 111] Connection refused>
prefect.exceptions.ScriptError: Script at 'train.py' encountered an exception: \
URLError(ConnectionRefusedError(111, 'Connection refused'))
"""
DISK = """
prefect.exceptions.ScriptError: Script at 'train.py' encountered an exception: \
OSError(5, 'Input/output error')
"""
MODULE_FLOW = """
12:03:58.391 | ERROR   | Flow run 'r' - Unexpected exception encountered when trying to load flow
ModuleNotFoundError: No module named 'team.training'
"""
MODULE_DRIVER = """
12:03:58.391 | ERROR   | Flow run 'r' - Unexpected exception encountered when trying to load flow
ImportError: libnvidia-ml.so.1: cannot open shared object file: No such file or directory
"""
KILLED = """
ModuleNotFoundError: No module named 'wandb'
12:04:11.764 | ERROR   | prefect.runner - Process exited with status code: -9
"""
SLOW_API = """
httpx.ReadTimeout
RuntimeError: Failed to reach API at http://127.0.0.1:4200/api
"""
API_AND_MODULE = """
ModuleNotFoundError: No module named 'uvloop'
httpx.ConnectError: All connection attempts failed
"""
COMMAND = "pyton cannot be started: No such file or directory"
NO_ROOM = "python cannot be started: Cannot allocate memory"


@pytest.mark.parametrize(
    ("output", "want", "want_permanent"),
    [
        pytest.param(
            MODULE,
            "unable to import the flow code: No module named 'no_such_module'. Ensure",
            True,
            id="a module",
        ),
        pytest.param(FILE, "file /opt/flows/train.py does not exist. Ensure", True, id="a file"),
        pytest.param(
            FUNCTION,
            "flow 'no_such' was not found in flows.py. Ensure",
            True,
            id="a name",
        ),
        pytest.param(
            SYNTAX, "syntax error in /flows/train.py, line 3: invalid syntax. Ensure", True,
            id="a syntax error",
        ),
        pytest.param(
            IMPORTED_NAME, "unable to import the flow code: cannot import name 'no_such'", True,
            id="a name of a module",
        ),
        pytest.param(OPENCV, "unable to import the flow code: libGL.so.1", True, id="a library"),
        pytest.param(
            DRIVER, "unable to import the flow code: libcuda.so.1: cannot open shared object "
            "file: No such file or directory. Ensure that the NVIDIA driver",
            False,
            id="a driver of a node",
        ),
        pytest.param(UNDEFINED, "failed to load train.py: NameError", True, id="undefined"),
        pytest.param(
            NO_ATTRIBUTE, "failed to load train.py: AttributeError", True, id="no attribute"
        ),
        pytest.param(RAISES, "failed to load flows/train.py: KeyError('DATA')", False, id="raises"),
        pytest.param(DATA, "failed to load flows/train.py: FileNotFound", False, id="its data"),
        pytest.param(HANDLED, "failed to load train.py: URLError", False, id="the network"),
        pytest.param(DISK, "failed to load train.py: OSError(5", False, id="a disk"),
        pytest.param(
            PULL_STEP, ("failed to run the deployment's pull step "
                       "prefect.deployments.steps.git_clone"),
            False, id="a pull step",
        ),
        pytest.param(
            NO_PREFECT, "Prefect is not installed in the run's environment or image. "
                        "Ensure that Prefect",
            True, id="an image of others",
        ),
        pytest.param(NO_API, "unable to connect to the Prefect API", False, id="the API"),
        pytest.param(
            SLOW_API, "the Prefect API did not respond in time", False, id="an API that is slow"
        ),
        pytest.param(
            API_AND_MODULE, "unable to connect to the Prefect API", False,
            id="the API, after a warning",
        ),
        pytest.param(
            MODULE_FLOW, "unable to import the flow code: No module named 'team.training'", True,
            id="a flow that is deployed as a module",
        ),
        pytest.param(
            MODULE_DRIVER, "unable to import the flow code: libnvidia-ml.so.1", False,
            id="a driver, in a module",
        ),
        pytest.param(
            KILLED, "unable to import the flow code: No module named 'wandb'", False,
            id="a handled error of a process that was killed",
        ),
        pytest.param(
            COMMAND, "failed to start the command pyton: No such file or directory. ", True,
            id="a command",
        ),
    ],
)  # fmt: skip
def test_the_reason_is_shown_with_what_helps(output, want, want_permanent):
    found = why_unbegun(output.splitlines())
    assert found is not None
    assert found.message.startswith(f"Failed to start the flow: {want}")
    assert found.message.endswith(".")
    assert found.is_permanent is want_permanent


@pytest.mark.parametrize("output", [NO_ROOM, "Killed", ""])
def test_a_machine_without_memory_gives_no_reason(output):
    assert why_unbegun(output.splitlines()) is None


@given(st.lists(st.text("abc:'. \t", max_size=40), max_size=30))
def test_output_that_says_nothing_of_it_gives_no_reason(lines):
    assert why_unbegun(lines) is None


def test_an_error_that_quotes_a_document_is_cut():
    found = why_unbegun([f"ImportError: {'x' * 10_000}"])
    assert found is not None
    assert len(found.message) < 1_000


def test_a_long_line_takes_no_long_time():
    """A run chooses what it writes, and the worker reads it."""
    line = "Script at 'x' encountered an exception: ImportError('" * 20_000
    began_s = time.process_time()
    assert why_unbegun([line] * 3) is not None
    assert time.process_time() - began_s < 5
