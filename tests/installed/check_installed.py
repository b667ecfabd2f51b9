"""Does an installed wheel work on its own? Run in its environment, far from any checkout.

    python -I tests/installed/check_installed.py

It uses what the runtime lock has, so no pytest. It prints one line for each check, and its exit
status is 1 if one of them failed.
"""

import os
import subprocess
import sys
import tempfile
import traceback
from importlib import import_module
from importlib.metadata import distribution
from pathlib import Path

WHEEL = distribution("prefect-gpu")


# Modules for packages that a user brings: without them these say so, and nothing else fails.
OF_OTHERS = {
    "gpu_core.runtime.hugging_face": "transformers",
    "gpu_core.runtime.inference.torch_perceptron": "torch",
    "gpu_core.runtime.lightning": "lightning",
}


def the_library_is_the_installed_one() -> None:
    """gpu_core comes from the environment and brings no other top-level name."""
    import gpu_core

    assert Path(gpu_core.__file__).is_relative_to(sys.prefix), gpu_core.__file__
    tops = {path.parts[0] for path in WHEEL.files or [] if path.parts[0] != ".."}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"gpu_core"}, tops


def every_module_imports() -> None:
    """No module needs what only a checkout or a developer has."""
    for path in WHEEL.files or []:
        if path.suffix != ".py" or path.name in ("__main__.py", "env.py"):
            continue  # these two run when they are imported: by Python, by Alembic
        if "versions" in path.parts:
            continue  # migrations have numbers for names
        name = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
        try:
            import_module(name)
        except ModuleNotFoundError as error:
            if error.name != OF_OTHERS.get(name):
                raise


def every_entry_point_loads() -> None:
    """Prefect and MLflow find what the package announces."""
    entry_points = WHEEL.entry_points
    assert {"console_scripts", "prefect.collections"} <= entry_points.groups, entry_points
    for entry_point in entry_points:
        entry_point.load()


def prefect_knows_the_worker() -> None:
    """`prefect worker start --type gpu-process` finds our worker."""
    from prefect.plugins import load_prefect_collections
    from prefect.workers.base import BaseWorker

    load_prefect_collections()
    worker = BaseWorker.get_worker_class_from_type("gpu-process")
    assert worker is not None, sorted(BaseWorker.get_all_available_worker_types())
    assert worker.__module__.startswith("gpu_core."), worker


def the_command_prints_its_version() -> None:
    """The console script starts."""
    command = Path(sys.executable).with_name("prefect-gpu")
    done = subprocess.run([command, "--version"], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert WHEEL.version in done.stdout, done.stdout


def blocks_and_flows_are_in_the_library() -> None:
    """`prefect-gpu setup` finds them in a folder that has folders of the same names."""
    import gpu_core

    home = Path(gpu_core.__file__).parent
    for name in ("gpu_core.blocks.usage_ledger", "gpu_core.flows.report_cost"):
        module = import_module(name)
        assert Path(module.__file__ or "").is_relative_to(home), module.__file__


def a_new_ledger_opens() -> None:
    """The migrations are in the wheel: they make a ledger where there was none."""
    from gpu_core.adapters.ledger import Ledger

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "ledger.db")
        with Ledger.open(f"sqlite:///{path}"):
            assert path.exists()


def the_nightly_report_runs() -> None:
    """The deployment that `setup` makes for a cluster, executed as its pod does: no checkout."""
    from prefect.client.orchestration import get_client
    from prefect.testing.utilities import prefect_test_harness

    from gpu_core.adapters.ledger import Ledger

    bin_folder = Path(sys.executable).parent
    with tempfile.TemporaryDirectory() as folder, prefect_test_harness(240):
        environment = {**os.environ, "PREFECT_API_URL": _server()}

        def run(*command: str) -> None:
            done = subprocess.run(
                [bin_folder / command[0], *command[1:]],
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                timeout=240,
            )
            assert done.returncode == 0, done.stdout + done.stderr

        ledger = f"sqlite:///{folder}/ledger.db"
        pool = ("--pool", "report", "--type", "gpu-kubernetes")
        run("prefect-gpu", "setup", *pool, "--ledger-url", ledger)
        Ledger.open(ledger).close()  # as the pool's first worker does: a report creates none
        with get_client(sync_client=True) as client:
            deployment = client.read_deployment_by_name("report-cost/nightly")
            flow_run = client.create_flow_run_from_deployment(deployment.id)
            run("prefect", "flow-run", "execute", str(flow_run.id))
            state = client.read_flow_run(flow_run.id).state
        assert state is not None
        assert state.is_completed(), state


def _server() -> str:
    from prefect.settings import get_current_settings

    return str(get_current_settings().api.url)


CHECKS = (
    the_library_is_the_installed_one,
    every_module_imports,
    every_entry_point_loads,
    prefect_knows_the_worker,
    the_command_prints_its_version,
    blocks_and_flows_are_in_the_library,
    a_new_ledger_opens,
    the_nightly_report_runs,
)


def main() -> int:
    """Run every check, also after one has failed."""
    failures = 0
    for check in CHECKS:
        try:
            check()
        except Exception:
            failures += 1
            traceback.print_exc()
            print(f"FAILED  {check.__name__}")
        else:
            print(f"ok      {check.__name__}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
