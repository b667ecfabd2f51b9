"""A worker that a person has to help says what is wrong and ends with code 2, on a real server."""

import subprocess
import sys

import pytest

from gpu_core.adapters.files.policy_file import load_policy
from gpu_core.decisions.model.errors import InvalidInput

PASSWORD = "do-not-show-me"  # noqa: S105 - of nothing


def test_each_mistake_is_said_in_one_go_and_changes_nothing(pool):
    """Of pool, type, policy, settings and ledger; the workers start side by side."""
    broken = pool.folder / "broken.yaml"
    broken.write_text("version: 1\nprioritees: {}\nbackfill: {mode: eazy}\n")
    address = f"postgresql://me:{PASSWORD}@db:54x2/ledger"
    ours, prefix = ("--type", "gpu-process"), "PREFECT_INTEGRATIONS_GPU_"
    rows = {
        "a misspelled pool": (("--pool", f"{pool.name}x", *ours), {}),
        "another type": (("--pool", pool.name, "--type", "gpu-kubernetes"), {}),
        "a broken policy": (("--pool", pool.name, *ours), {"POLICY_PATH": str(broken)}),
        "a setting": (("--pool", pool.name, *ours), {"CAPACITY_TYPE": "spott"}),
        "a ledger": (("--pool", pool.name, *ours), {"LEDGER_URL": address}),
        "an API without http": (("--pool", pool.name, *ours), {}),
    }
    addresses = {"an API without http": "localhost:4200"}
    workers = {
        row: subprocess.Popen(
            [sys.executable, "-m", "prefect", "worker", "start", *arguments],
            env=pool.environment
            | {f"{prefix}{name}": value for name, value in settings.items()}
            | ({"PREFECT_API_URL": addresses[row]} if row in addresses else {}),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for row, (arguments, settings) in rows.items()
    }  # fmt: skip
    said = {row: worker.communicate()[0] for row, worker in workers.items()}

    assert {row: worker.returncode for row, worker in workers.items()} == dict.fromkeys(rows, 2)
    assert not any("Traceback" in text for text in said.values()), said
    assert f"Did you mean '{pool.name}'?" in said["a misspelled pool"]
    assert f"prefect-gpu setup --pool {pool.name}x --type gpu-process" in said["a misspelled pool"]
    names = {each["name"] for each in pool.call("POST", "/work_pools/filter", {})}
    assert f"{pool.name}x" not in names
    assert "Allowed: gpu-process" in said["another type"]
    with pytest.raises(InvalidInput) as of_setup:
        load_policy(broken)
    assert str(of_setup.value) in said["a broken policy"]
    assert f"{prefix}CAPACITY_TYPE is not one of the choices" in said["a setting"]
    assert "ledger url is not a database address" in said["a ledger"]
    assert PASSWORD not in said["a ledger"]
    assert "PREFECT_API_URL must start with http:// or https://" in said["an API without http"]
    assert "Did you mean 'http://localhost:4200/api'?" in said["an API without http"]
