"""The job variables that shape a pod, and what a person reads who wrote something else."""

import pytest

from gpu_core.decisions.kubernetes.variables.variables import (
    ClaimMount,
    PodRequest,
    parse_pod_request,
    parse_running_request,
)
from gpu_core.decisions.model.errors import InvalidInput


def test_all_of_them():
    request = parse_pod_request(
        {
            "cpu_per_gpu": 4,
            "memory_gib_per_gpu": 32.5,
            "shm_size": "8Gi",
            "volumes": [{"claim": "datasets", "mount_path": "/data", "read_only": True}],
            "model_cache": False,
            "image": "ghcr.io/team/train:1",
            "command": ["uv", "run", "prefect", "flow-run", "execute"],
            "container_command": "python train.py --name 'a b'",
            "framework": "torchrun",
            "team": "vision",
            "user": None,
        }
    )
    assert (request.cpu_per_gpu, request.memory_gib_per_gpu) == (4.0, 32.5)
    assert request.shm_size_mib == 8 * 1024
    assert request.volumes == (ClaimMount(claim="datasets", mount_path="/data", read_only=True),)
    assert request.command == ("uv", "run", "prefect", "flow-run", "execute")
    assert request.container_command == ("python", "train.py", "--name", "a b")
    assert (request.model_cache, request.framework) == (False, "torchrun")


def test_a_command_may_be_a_list():
    assert parse_pod_request({"command": ["sh", "-c", "a; b"]}).command == ("sh", "-c", "a; b")


def test_a_blank_command_is_the_default_as_on_every_prefect_pool():
    assert parse_pod_request({"command": ""}).command is None


@pytest.mark.parametrize(
    ("variables", "want"),
    [
        pytest.param({"shm_size": "8GB"}, "shm_size is not a quantity", id="a unit of disks"),
        pytest.param({"shm_size": "0"}, "shm_size is too small", id="no shared memory"),
        pytest.param({"cpu_per_gpu": "4"}, "cpu_per_gpu", id="a number as text"),
        pytest.param({"command": "a 'b"}, "command is not a valid command", id="an open quote"),
        pytest.param({"command": []}, "command is not a command", id="an empty command"),
        pytest.param(
            {"container_command": ""}, "container_command is not a command", id="a blank command"
        ),
        pytest.param(
            {"volumes": [{"claim": "Data Sets", "mount_path": "/data"}]},
            "volumes.0.claim is not a name of a Kubernetes object",
            id="a claim with a blank",
        ),
        pytest.param(
            {"volumes": [{"claim": "data", "mount_path": "data"}]},
            "volumes.0.mount_path is not a path",
            id="a relative path",
        ),
        pytest.param(
            {"volumes": [{"claim": "data", "path": "/data"}]},
            "volumes.0.path is not a known name",
            id="a misspelled key",
        ),
        pytest.param({"framework": "rai"}, "Did you mean 'ray'", id="a misspelled framework"),
    ],
)
def test_what_is_wrong_is_said(variables, want):
    with pytest.raises(InvalidInput) as caught:
        parse_pod_request(variables)
    assert want in str(caught.value)


@pytest.mark.parametrize(
    ("variables", "want"),
    [
        pytest.param({"container_command": ["a", "b"]}, ("a", "b"), id="a list"),
        pytest.param({"container_command": "a b", "cpu_limit": "?"}, ("a", "b"), id="other rules"),
        pytest.param({"framework": "rai"}, None, id="a word that is not known"),
        pytest.param({"framework": {"a": 1}}, None, id="a mapping"),
        pytest.param({"container_command": [["a"]]}, None, id="a list of lists"),
    ],
)
def test_the_kind_of_a_running_attempt_is_always_known(variables, want):
    """Otherwise nothing of it would be judged any more."""
    assert parse_running_request(variables).container_command == want
    assert parse_running_request({}) == PodRequest()
