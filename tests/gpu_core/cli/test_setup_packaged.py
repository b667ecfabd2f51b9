"""The deployments of our own flows, as `prefect-gpu setup` creates and updates them."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from prefect.exceptions import ObjectNotFound

from gpu_core.cli.setup.packaged import have_packaged_deployments
from gpu_core.cli.setup.session import Session


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
        self.deployments[full_name] = SimpleNamespace(id=full_name, parameters={}, **fields)

    async def update_deployment(self, full_name: str, update: Any) -> None:
        for field, value in update.model_dump(exclude_unset=True).items():
            setattr(self.deployments[full_name], field, value)

    def parameters(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.deployments[name].parameters
        return found


def have(server: Server) -> None:
    session = Session(server, dry_run=False)  # type: ignore[arg-type]  # what of a client it uses
    asyncio.run(have_packaged_deployments(session, "gpu", "gpu-process", ()))


def test_no_flow_gets_a_policy_of_this_machine() -> None:
    """Its runs read in the ledger which one the pool's workers have in force."""
    server = Server()
    have(server)
    assert not any(server.parameters(name) for name in server.deployments)


def test_one_pass_of_a_sweep_runs_at_a_time() -> None:
    server = Server()
    have(server)
    limits = {name: each.concurrency_limit for name, each in server.deployments.items()}
    assert limits.pop("run-sweep/by-dollars") == 1
    assert set(limits.values()) == {None}


def test_a_policy_that_a_person_set_is_kept(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """One that is no file here is named: it may be on the machine where the runs are."""
    server, own = Server(), tmp_path / "mine.yaml"
    own.touch()
    have(server)
    given = {"report-cost/nightly": str(own), "close-month/monthly": str(tmp_path / "gone.yaml")}
    for name, policy in given.items():
        server.parameters(name)["policy"] = policy
    capsys.readouterr()
    have(server)
    said = [line for line in capsys.readouterr().out.splitlines() if line.split()[0] != "="]
    assert len(said) == 1
    assert "deployment close-month/monthly: the `policy` parameter refers to" in said[0]
    assert "does not exist on this machine. If you remove the parameter, the policy" in said[0]
    assert {name: server.parameters(name)["policy"] for name in given} == given
