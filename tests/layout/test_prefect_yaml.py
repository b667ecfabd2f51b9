"""prefect.yaml means what it says: Prefect itself drops misspelled keys and makes up queues."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from prefect.cli.deploy._models import (
    ConcurrencyLimitSpec,
    DeploymentConfig,
    PrefectYamlModel,
    RawScheduleConfig,
    WorkPoolConfig,
)

from gpu_core.cli.setup.packaged import PACKAGED_DEPLOYMENTS

ROOT = Path(__file__).parents[2]

PREFECT_YAML = yaml.safe_load((ROOT / "prefect.yaml").read_text(encoding="utf-8"))
POLICY = yaml.safe_load((ROOT / "deployments" / "policy.yaml").read_text(encoding="utf-8"))
DEPLOYMENTS = [
    pytest.param(deployment, id=deployment.get("name", "without a name"))
    for deployment in PREFECT_YAML["deployments"]
]
ENTRYPOINTS = sorted(
    {deployment["entrypoint"] for deployment in PREFECT_YAML["deployments"]}
    | {deployment.entrypoint for deployment in PACKAGED_DEPLOYMENTS}
)

# The loading of a run: as in `prefect flow-run execute`, the checkout is the working directory
# and not on the path (-P), and a flow that cannot be imported is an error, not a placeholder. A
# module is found where the package is installed: the checkout stands for that. Each flow is loaded
# by a child of one process that has imported Prefect, which takes most of the time, and no more.
LOAD = """
import os, sys, traceback
from pathlib import Path
from prefect.flows import load_flow_from_entrypoint

def ours():
    return [m for n, m in sys.modules.items() if n.split(".")[0] in ("gpu_core", "blocks", "flows")]

def load(entrypoint):
    if ":" not in entrypoint:
        sys.path.insert(0, os.getcwd())
    flow = load_flow_from_entrypoint(entrypoint, use_placeholder_flow=False)
    strays = [m.__file__ for m in ours() if not Path(m.__file__).is_relative_to(Path.cwd())]
    assert ours() and not strays, f"loaded from elsewhere: {strays}"
    print(flow.name)

assert not ours()
for entrypoint, output in zip(sys.argv[1::2], sys.argv[2::2], strict=True):
    child = os.fork()
    if not child:
        with open(output, "w") as sys.stdout:
            sys.stderr, code = sys.stdout, 1
            try:
                load(entrypoint)
                code = 0
            except BaseException:
                traceback.print_exc()
        os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def known_keys(model, *more):
    """The keys that Prefect's own model of this part reads; it ignores all others."""
    return {field.alias or name for name, field in model.model_fields.items()} | set(more)


def test_prefect_knows_every_key_of_the_file():
    assert set(PREFECT_YAML) - known_keys(PrefectYamlModel, "definitions") == set()


@pytest.mark.parametrize("deployment", DEPLOYMENTS)
def test_prefect_knows_every_key_of_the_deployment(deployment):
    pool = deployment.get("work_pool", {})
    limit = deployment.get("concurrency_limit")
    schedules = deployment.get("schedules", [])
    assert set(deployment) - known_keys(DeploymentConfig) == set()
    assert set(pool) - known_keys(WorkPoolConfig) == set()
    assert set(limit if isinstance(limit, dict) else {}) - known_keys(ConcurrencyLimitSpec) == set()
    for schedule in schedules:
        assert set(schedule) - known_keys(RawScheduleConfig) == set()


@pytest.mark.parametrize("deployment", DEPLOYMENTS)
def test_a_deployment_names_what_people_look_for(deployment):
    """Its name, what it does, where it runs: these are read in the UI and by `prefect deploy`."""
    assert {"name", "description", "entrypoint", "work_pool"} <= set(deployment)
    assert deployment["work_pool"]["name"]


def test_deployment_names_are_unique():
    names = [deployment["name"] for deployment in PREFECT_YAML["deployments"]]
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize("deployment", DEPLOYMENTS)
def test_the_queue_is_one_of_the_policy(deployment):
    """A misspelled queue would be created by Prefect, with the lowest priority."""
    queue = deployment["work_pool"].get("work_queue_name", "default")
    assert queue in {*POLICY["priorities"], "default"}


@pytest.fixture(scope="module")
def loaded(clean_export, tmp_path_factory):
    """Of each entry point the exit status of its loading, and what this printed."""
    folder = tmp_path_factory.mktemp("loaded")
    outputs = {each: folder / f"{number}.txt" for number, each in enumerate(ENTRYPOINTS)}
    done = subprocess.run(
        [sys.executable, "-P", "-c", LOAD, *(part for pair in outputs.items() for part in pair)],
        cwd=clean_export,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    codes = map(int, done.stdout.split())
    return {
        each: (code, output.read_text())
        for (each, output), code in zip(outputs.items(), codes, strict=True)
    }


@pytest.mark.parametrize("entrypoint", ENTRYPOINTS)
def test_the_flow_loads_from_a_fresh_clone(entrypoint, loaded):
    code, printed = loaded[entrypoint]
    assert code == 0, printed
    assert printed.strip()


def test_flows_on_a_schedule_hold_no_gpu_and_have_a_time_of_their_own():
    """They run next to the work of others, and one after the other."""
    scheduled = [each for each in PACKAGED_DEPLOYMENTS if each.cron is not None]
    assert scheduled
    assert {each.job_variables["gpu_count"] for each in scheduled} == {0}
    assert len({each.cron for each in scheduled}) == len(scheduled)
