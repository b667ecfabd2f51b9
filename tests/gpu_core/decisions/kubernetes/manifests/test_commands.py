"""Whose command it is: the flow's engine, a container, or ambiguous."""

import pytest

from flows.run_container import run_container
from gpu_core.decisions.kubernetes.manifests.commands import (
    CONTAINER_FLOW,
    held_if_ambiguous,
    is_container_job,
    require_a_use,
    with_container_command,
)
from gpu_core.decisions.kubernetes.variables.variables import parse_pod_request
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.reasons import Reason
from gpu_core.testing.builders.workloads import make_workload

ENGINE = "uv run prefect flow-run execute"
BUNDLE = "python -m prefect.bundles.execute --key e528eea0-97dc-444c-a33f-16e28f0d3ca8"


def request_of(flow_name="train", has_begun=False, **variables):
    return with_container_command(
        parse_pod_request(variables), flow_name, has_deployment=True, has_begun=has_begun
    )


def held(workload, request):
    return held_if_ambiguous(workload, request, has_deployment=True)


@pytest.mark.parametrize(
    ("variables", "nodes", "want"),
    [
        pytest.param({}, 1, False, id="nothing given"),
        pytest.param({"command": ENGINE}, 1, False, id="an engine of one's own"),
        pytest.param({"command": BUNDLE}, 1, False, id="a bundle"),
        pytest.param({"container_command": "nvidia-smi"}, 1, True, id="a container"),
        pytest.param({"container_command": "x", "command": ENGINE}, 1, True, id="pool's engine"),
        pytest.param({"container_command": "train"}, 2, False, id="a gang of a flow"),
        pytest.param(
            {"container_command": "t", "framework": "torchrun"}, 2, True, id="torchrun on nodes"
        ),
        pytest.param({"container_command": "t", "framework": "ray"}, 2, True, id="an operator's"),
        pytest.param(
            {"container_command": "t", "flow_name": CONTAINER_FLOW}, 2, True,
            id="the flow that stands for a container, on several nodes",
        ),
    ],
)  # fmt: skip
def test_a_container_job_is_what_container_command_makes_one(variables, nodes, want):
    name = variables.get("flow_name", "train")
    assert is_container_job(request_of(**variables), name, nodes) is want


@pytest.mark.parametrize(
    "variables",
    [
        pytest.param({"command": "/opt/start.sh"}, id="one node"),
        pytest.param({"command": ["python", "train.py"]}, id="a list"),
    ],
)
def test_a_command_that_fits_both_meanings_is_held_with_both_names(variables):
    workload = held(make_workload(), request_of(**variables))
    assert workload.hold is not None
    assert workload.hold.reason == Reason.AMBIGUOUS_COMMAND
    text = f"{workload.hold.summary} {workload.hold.resolution}"
    assert " ".join(parse_pod_request(variables).command) in text
    assert "container_command" in text
    assert "uv run prefect flow-run execute" in text


@pytest.mark.parametrize(
    "variables",
    [
        pytest.param({}, id="nothing given"),
        pytest.param({"command": ENGINE}, id="an engine"),
        pytest.param({"command": BUNDLE}, id="a bundle"),
        pytest.param({"container_command": "true"}, id="a container"),
        pytest.param({"command": "start.sh", "container_command": "t"}, id="both names"),
    ],
)
def test_what_has_one_meaning_is_not_held(variables):
    workload = make_workload()
    assert held(workload, request_of(**variables)) is workload


def test_a_long_command_is_shown_in_part():
    workload = held(make_workload(), request_of(command="x" * 10_000))
    assert workload.hold is not None
    assert len(workload.hold.summary) < 150


@pytest.mark.parametrize(
    "older",
    [
        pytest.param({"flow_name": CONTAINER_FLOW}, id="the flow that stands for a container"),
        pytest.param({"framework": "torchrun"}, id="torchrun"),
        pytest.param({"framework": "spark"}, id="Spark"),
        pytest.param({"has_begun": True}, id="an attempt that runs already"),
    ],
)
def test_a_run_of_version_0_1_keeps_its_container_where_no_flow_can_be_meant(older):
    request = request_of(command="train.py --fast", **older)
    assert (request.command, request.container_command) == (None, ("train.py", "--fast"))
    workload = make_workload()
    assert held(workload, request) is workload
    assert is_container_job(request, older.get("flow_name", "train"), nodes=1)


def test_the_flow_that_stands_for_a_container_is_the_shipped_one():
    assert run_container.name == CONTAINER_FLOW


@pytest.mark.parametrize(
    ("variables", "want"),
    [
        pytest.param({"container_command": "x"}, "container_command leaves no node", id="one node"),
        pytest.param({"framework": "ray"}, "framework leaves no node.*'ray'", id="an operator"),
    ],
)
def test_a_submitted_flow_that_no_node_would_run_is_refused(variables, want):
    request = request_of(command=BUNDLE, **variables)
    with pytest.raises(InvalidInput, match=want):
        require_a_use(request, "train", nodes=1, has_deployment=True)
    require_a_use(request_of(command=BUNDLE), "train", nodes=1, has_deployment=True)
    require_a_use(
        request_of(command=BUNDLE, container_command="x"), "train", nodes=2, has_deployment=True
    )
