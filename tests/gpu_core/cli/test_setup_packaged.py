"""The deployments of our own flows get the policy that `prefect-gpu setup` knows."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from prefect.exceptions import ObjectNotFound

from gpu_core.cli.setup.packaged import have_packaged_deployments
from gpu_core.cli.setup.session import Session

POLICY = Path("/etc/gpu/policy.yaml")


class Server:
    """A Prefect server's deployments, by name."""

    def __init__(self) -> None:
        self.deployments: dict[str, Any] = {}
        self._flows: dict[Any, str] = {}

    async def read_deployment_by_name(self, name: str) -> Any:
        if name not in self.deployments:
            raise ObjectNotFound(Exception(name))
        return self.deployments[name]

    async def create_flow_from_name(self, name: str) -> Any:
        flow_id = uuid4()
        self._flows[flow_id] = name
        return flow_id

    async def create_deployment(self, *, flow_id: Any, name: str, **fields: Any) -> None:
        full_name = f"{self._flows[flow_id]}/{name}"
        self.deployments[full_name] = SimpleNamespace(id=full_name, **fields)

    async def update_deployment(self, full_name: str, update: Any) -> None:
        for field, value in update.model_dump(exclude_unset=True).items():
            setattr(self.deployments[full_name], field, value)

    def parameters(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.deployments[name].parameters
        return found


def have(server: Server, policy: Path | None, pool_type: str = "gpu-process") -> None:
    session = Session(server, dry_run=False)  # type: ignore[arg-type]  # what of a client it uses
    asyncio.run(have_packaged_deployments(session, "gpu", pool_type, (), policy))


def test_flows_with_a_policy_get_the_one_that_setup_knows() -> None:
    server = Server()
    have(server, POLICY)
    with_policy = {name for name in server.deployments if server.parameters(name)}
    assert with_policy == {
        "close-month/monthly",
        "report-cost/nightly",
        "propose-savings/nightly",
        "run-sweep/by-dollars",
    }
    assert {server.parameters(name)["policy"] for name in with_policy} == {str(POLICY)}


def test_one_pass_of_a_sweep_runs_at_a_time() -> None:
    server = Server()
    have(server, POLICY)
    limits = {name: each.concurrency_limit for name, each in server.deployments.items()}
    assert limits.pop("run-sweep/by-dollars") == 1
    assert set(limits.values()) == {None}


@pytest.mark.parametrize(
    ("policy", "pool_type"),
    [
        pytest.param(None, "gpu-process", id="there is no policy"),
        pytest.param(POLICY, "gpu-kubernetes", id="pods have no file of this machine"),
    ],
)
def test_a_policy_that_runs_cannot_read_is_not_set(policy: Path | None, pool_type: str) -> None:
    server = Server()
    have(server, policy, pool_type)
    assert not any(server.parameters(name) for name in server.deployments)


def test_a_deployment_of_before_gets_it_and_what_a_person_set_is_kept(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    server, policy, own = Server(), tmp_path / "policy.yaml", tmp_path / "mine.yaml"
    policy.touch()
    own.touch()
    have(server, None)
    server.parameters("report-cost/nightly")["policy"] = str(own)
    have(server, policy)
    assert server.parameters("close-month/monthly") == {"policy": str(policy)}
    assert server.parameters("report-cost/nightly") == {"policy": str(own)}
    capsys.readouterr()
    have(server, policy)
    assert {line.split()[0] for line in capsys.readouterr().out.splitlines()} == {"="}


def test_a_policy_that_has_moved_is_said_and_not_overwritten(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The file may be on the machine where the runs are, and not on this one."""
    server, policy = Server(), tmp_path / "policy.yaml"
    policy.touch()
    have(server, tmp_path / "before" / "policy.yaml")
    capsys.readouterr()
    have(server, policy)
    said = [line for line in capsys.readouterr().out.splitlines() if line.split()[0] == "!"]
    assert len(said) == 4
    assert all("no file here" in line for line in said)
    assert server.parameters("close-month/monthly") != {"policy": str(policy)}
