"""What holds for every test: its tier, no network but this machine's, and repeatable properties."""

import gc
import os
import sys
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from tests.support import loopback_only
from tests.support.cluster import KUBECONFIG_VARIABLE
from tests.support.tiers import (
    ALL,
    Tier,
    left_out_lines,
    tier_of,
    tiers_below,
    tiers_of_files,
    why_misplaced,
)

if TYPE_CHECKING:
    from tests.support.prefect_stack import PrefectServer

# A property's example must not fail because the machine was slow; in CI the same examples run
# each time, so that a red run is about the change and can be repeated. CI and `make test` take a
# quarter of them, also of those that name a number (`tests.support.examples`).
settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, max_examples=25)
settings.register_profile("quick", deadline=None, max_examples=25)


# Processes that a test starts are beyond the guard below. These keep them off the network too:
# Prefect's and MLflow's usage statistics, Prefect's server's, and boto3's search for credentials
# on a cloud machine. They are set before Prefect is imported, which reads them once.
os.environ |= {
    "DO_NOT_TRACK": "true",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "AWS_EC2_METADATA_DISABLED": "true",
}


# pytest's own, which it changes while a test runs.
_CURRENT_TEST = "PYTEST_CURRENT_TEST"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--tier", choices=[*Tier, ALL], default=ALL, help="run only the tests that cost this much"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Choose the number of examples before the first test module is imported."""
    config.stash[_LEFT_OUT] = set()
    of_files = tiers_of_files(config.rootpath / "tests")
    config.stash[_TIERS_OF_FILES] = of_files
    config.stash[_TIERS_BELOW] = tiers_below(of_files)
    is_quick = config.getoption("tier") == Tier.QUICK
    if is_quick:
        # A quick test that logs without an API address would start a whole Prefect server in a
        # thread of this process. That slows down all tests, and Python 3.11 fails when two threads
        # parse source at once (python/cpython#106905), which pytest does for its reports.
        os.environ["PREFECT_SERVER_ALLOW_EPHEMERAL_MODE"] = "false"
    elsewhere = "quick" if is_quick else "local"
    settings.load_profile("ci" if os.environ.get("CI") else elsewhere)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without a search for garbage, and keep later searches off what was collected.

    Modules and items are a million objects that stay: to look at them again and again takes a
    seventh of the collection, and half a second of each test that looks for garbage.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _network_is_loopback_only():
    with loopback_only.enforced():
        yield


@pytest.fixture(scope="session", autouse=True)
def _quick_clients_connect_again_at_once(pytestconfig: pytest.Config) -> Iterator[None]:
    """Prefect's clients connect four times. httpcore pauses for 1.5 s in all between these."""
    with pytest.MonkeyPatch.context() as patch:
        for kind in ("async", "sync"):
            connection = sys.modules.get(f"httpcore._{kind}.connection")
            if connection is not None and pytestconfig.getoption("tier") == Tier.QUICK:
                patch.setattr(connection, "RETRIES_BACKOFF_FACTOR", 0.0)
        yield


@pytest.fixture(scope="session", autouse=True)
def _new_ledgers_are_copies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    # All test modules are imported by now: where none needs the ledger it is not loaded for this.
    database = sys.modules.get("gpu_core.adapters.ledger.database")
    if database is None:
        yield
        return
    from tests.support.ledger_copies import copied_ledgers

    with copied_ledgers(database, tmp_path_factory.mktemp("ledger")):
        yield


@pytest.fixture(autouse=True)
def _environment_is_restored() -> Iterator[None]:
    """Libraries set variables and leave them: moto its credentials, MLflow its address and run."""
    before = {name: value for name, value in os.environ.items() if name != _CURRENT_TEST}
    yield
    for name in os.environ.keys() - before.keys() - {_CURRENT_TEST}:
        del os.environ[name]
    os.environ.update(before)


@pytest.fixture(scope="session")
def prefect_server() -> Iterator[None]:
    """A real Prefect server of the tests' own, on SQLite; its clients find it by themselves."""
    # Prefect takes seconds to import, and most tests do without it.
    from prefect.testing.utilities import prefect_test_harness

    from tests.support.prefect_databases import harness_on_copies

    with harness_on_copies(), prefect_test_harness(server_startup_timeout=240):
        yield


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """The address of a PostgreSQL server of the tests' own, without a database's name."""
    from tests.support.postgresql import postgresql_server

    with postgresql_server() as address:
        yield address


@pytest.fixture(scope="session")
def prefect_on_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Iterator["PrefectServer"]:
    """A Prefect server on SQLite, as a process of its own.

    It may stand still for a minute after a client's death, and then refuse for another: only for
    tests that are about SQLite.
    """
    from tests.support.prefect_stack import new_server

    with new_server(tmp_path_factory.mktemp("prefect-on-sqlite")) as running:
        yield running


@pytest.fixture(scope="session")
def prefect_on_postgresql(
    tmp_path_factory: pytest.TempPathFactory, postgresql: str
) -> Iterator["PrefectServer"]:
    """A Prefect server on a PostgreSQL database, as a process of its own."""
    from tests.support.prefect_stack import new_server

    with new_server(tmp_path_factory.mktemp("prefect-on-postgresql"), postgresql) as running:
        yield running


# Fast ones first; and properties before anything that starts a Prefect client in this process,
# whose threads draw random numbers that Hypothesis would take for the test's.
_ORDER = (
    "gpu_core/decisions",
    "gpu_core",
    "support",
    "layout",
    "benchmarks",
    "local_cluster",
    "blocks",
    "flows",
)

# What shares a server or a cluster runs in one process, where tests run in several.
_TOGETHER = {"cluster": "cluster", "infra": "cluster", "end_to_end": "stories"}
# Processes, each with its own servers, share the stories: these take half of the time.
_SECOND_HALF = (
    "test_checkpoints_on_s3",
    "test_endings",
    "test_engines",
    "test_killed_worker",
    "test_outages",
    "test_sweeps",
)
# These start servers of their own, and any process runs them.
_OWN_SERVERS = ("test_chaos", "test_getting_started")
# These start clusters of their own, and a second process runs them.
_OWN_CLUSTERS = ("test_chaos", "test_hung_gang", "test_partition", "test_rendezvous")
# All tests share the one that is given.
_IS_CLUSTER_GIVEN = KUBECONFIG_VARIABLE in os.environ


# First, as pytest-xdist reads the groups in a hook of the same name.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep one tier; order it: pure tests, those with a system in this process, stories."""
    _keep_one_tier(config, items)

    def place(item: pytest.Item) -> int:
        path = _path(item.path, config.rootpath)
        places = (n for n, prefix in enumerate(_ORDER) if path.startswith(prefix))
        return next(places, len(_ORDER))

    # No property is among those of the integration tier: what takes longest begins first there.
    items.sort(key=place, reverse=config.getoption("tier") == Tier.INTEGRATION)
    for item in items:
        folder = _path(item.path, config.rootpath).partition("/")[0]
        shares_a_server = "prefect_server" in getattr(item, "fixturenames", ())
        group = "prefect" if shares_a_server else _TOGETHER.get(folder)
        if group == "stories":
            group = _group_of_story(item.path.stem)
        if group == "cluster" and item.path.stem in _OWN_CLUSTERS and not _IS_CLUSTER_GIVEN:
            group = "own clusters"
            item.add_marker("own_cluster")
        if group is not None:
            item.add_marker(pytest.mark.xdist_group(group))


def _group_of_story(file: str) -> str:
    if file in _OWN_SERVERS:
        return file
    return "second half of the stories" if file in _SECOND_HALF else "stories"


_LEFT_OUT = pytest.StashKey[set[Tier]]()
_TIERS_OF_FILES = pytest.StashKey[dict[str, frozenset[Tier]]]()
_TIERS_BELOW = pytest.StashKey[dict[str, frozenset[Tier]]]()
_MISPLACED = pytest.StashKey[str]()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import only files and folders that may hold tests of the tier: most hold none."""
    wanted = config.getoption("tier", ALL)
    root = config.rootpath / "tests"
    if wanted == ALL or root not in collection_path.parents:
        return None
    path = collection_path.relative_to(root).as_posix()
    inside = config.stash[_TIERS_BELOW].get(path, frozenset())
    if not inside or wanted in inside:
        return None
    config.stash[_LEFT_OUT] |= inside
    return True


def _keep_one_tier(config: pytest.Config, items: list[pytest.Item]) -> None:
    wanted = config.getoption("tier", ALL)
    others = []
    for item in items:
        path = _path(item.path, config.rootpath)
        tier = _tier(item, path)
        if reason := why_misplaced(path, tier, config.stash[_TIERS_OF_FILES].get(path, set())):
            item.stash[_MISPLACED] = reason
        elif wanted not in (ALL, tier):
            config.stash[_LEFT_OUT].add(tier)
            others.append(item)
    config.hook.pytest_deselected(items=others)
    left_out = set(others)
    items[:] = [item for item in items if item not in left_out]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if reason := item.stash.get(_MISPLACED, None):
        pytest.fail(reason, pytrace=False)


def _tier(item: pytest.Item, path: str) -> Tier:
    markers = [marker.name for marker in item.iter_markers()]
    return tier_of(path, [*getattr(item, "fixturenames", ()), *markers])


@cache
def _path(path: Path, root: Path) -> str:
    return path.relative_to(root / "tests").as_posix()


# Under pytest-xdist only the workers collect: each reports to the process that prints the summary.
def pytest_sessionfinish(session: pytest.Session) -> None:
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["left_out"] = [tier.value for tier in session.config.stash[_LEFT_OUT]]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    left_out = getattr(node, "workeroutput", {}).get("left_out", [])
    node.config.stash[_LEFT_OUT] = {Tier(name) for name in left_out}


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say which tests were left out, and how to run them."""
    lines = left_out_lines(config.stash[_LEFT_OUT])
    if lines:
        terminalreporter.section("left out")
    for line in lines:
        terminalreporter.line(line)
