"""Which failures of flows and containers come again in each attempt."""

import pytest

from gpu_core.decisions.attempts.diagnosis import why_container_failed, why_flow_failed

RAISED = "Flow run encountered an exception: "
STORE = (
    "StoreMisconfigured: the checkpoint store s3://b/p/r cannot be used: NoCredentialsError: "
    "Unable to locate credentials. Set AWS_ACCESS_KEY_ID"
)
UNREACHABLE = STORE.replace("StoreMisconfigured", "StoreUnreachable")
ADDRESS = "InvalidInput: checkpoint_uri has an unknown scheme (got 'gs://b'). Allowed: a folder"


# Messages of Failed states as Prefect 3.8.8 wrote them.
@pytest.mark.parametrize(
    ("message", "want"),
    [
        pytest.param(RAISED + STORE, "the checkpoint store s3://b/p/r cannot be used", id="store"),
        pytest.param(RAISED + ADDRESS, "checkpoint_uri has an unknown scheme", id="address"),
        pytest.param(
            RAISED + "ModuleNotFoundError: No module named 'torch'",
            (
                "No module named 'torch'. Ensure that the module is installed in the run's "
                "environment or image"
            ),
            id="a module that the flow imports as it runs",
        ),
        pytest.param(
            "Validation of flow parameters failed with error: ParameterTypeError: Flow run "
            "received invalid parameters:\n - x: Input should be a valid integer",
            "Validation of the flow parameters failed: ParameterTypeError: Flow run "
            "received invalid parameters: - x: Input should be a valid integer. Please "
            "submit a new run with valid parameters",
            id="parameters",
        ),
        pytest.param(RAISED + UNREACHABLE, None, id="a store that may come back"),
        pytest.param(RAISED + "ValueError: the data set is empty", None, id="the flow's own error"),
        pytest.param(
            RAISED + "RuntimeError: rank 3 said ModuleNotFoundError: No module named 'x'",
            None,
            id="an error that quotes another",
        ),
        pytest.param(
            RAISED + "ImportError: libcuda.so.1: cannot open shared object file", None, id="driver"
        ),
        pytest.param(RAISED + "ConnectError: All connection attempts failed", None, id="network"),
        pytest.param("1/3 states failed.", None, id="tasks"),
        pytest.param("", None, id="nothing"),
        pytest.param(None, None, id="no message"),
    ],
)
def test_a_flow_that_fails_alike_each_time(message, want):
    found = why_flow_failed(message)
    assert (found is None) == (want is None)
    if found is not None and want is not None:
        assert found.message.startswith(want)
        assert found.is_permanent


@pytest.mark.parametrize(
    ("output", "want"),
    [
        pytest.param(
            f"gpu_core.adapters.checkpoints.store.{STORE}\nChildFailedError: rank 0",
            "the checkpoint store",
            id="the store, and what the launcher of the ranks says after it",
        ),
        pytest.param(
            "Traceback\nModuleNotFoundError: No module named 'torch'\n\n",
            "No module named 'torch'",
            id="a module",
        ),
        pytest.param(
            "ModuleNotFoundError: No module named 'wandb'\nepoch 1\nloss is nan", None, id="handled"
        ),
        pytest.param(
            f"gpu_core.adapters.checkpoints.store.{UNREACHABLE}", None, id="may come back"
        ),
        pytest.param("no data", None, id="the program's own error"),
        pytest.param("", None, id="nothing"),
    ],
)
def test_a_container_that_fails_alike_each_time(output, want):
    found = why_container_failed(output.splitlines())
    assert (found is None) == (want is None)
    assert found is None or found.message.startswith(want or "")
