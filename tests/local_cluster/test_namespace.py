"""A cluster's programs and mounts live as long as the process that holds them."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.tools import do_without


@pytest.fixture
def namespace(local_cluster_module: Callable[[str], ModuleType]) -> ModuleType:
    if os.geteuid() != 0:
        do_without("making a namespace needs root", "run as root")
    return local_cluster_module("namespace")


@pytest.fixture
def state(tmp_path: Path) -> Path:
    (tmp_path / "logs").mkdir()
    return tmp_path


@pytest.fixture
def lifeline() -> Iterator[list[int]]:
    """The two ends of a pipe; one that a test takes off the list, it closes itself."""
    ends = [*os.pipe()]
    yield ends
    for end in ends:
        os.close(end)


def test_the_end_of_the_lifeline_is_the_end_of_all(namespace, state, lifeline):
    init = namespace.create(state, lifeline[0])
    program = namespace.start(init, ["sleep", "infinity"], state / "log", {})
    assert init.is_alive()
    assert program.is_alive()
    os.close(lifeline.pop())
    # Signal 0 only asks; the kernel ends the program as it ends the first process.
    assert program.end(0, within_s=240)
    assert init.end(0, within_s=240)


def test_what_runs_inside_sees_its_own_processes(namespace, state, lifeline):
    init = namespace.create(state, lifeline[0])
    try:
        namespace.run(init, ["sh", "-c", f"ls -d /proc/[0-9]* | wc -l > {state}/processes"])
        assert int((state / "processes").read_text()) < 10
    finally:
        assert init.end(9, within_s=240)


def test_each_node_has_its_own_folders_and_ends_with_the_cluster(namespace, state, lifeline):
    init = namespace.create(state, lifeline[0])
    rooms = {}
    try:
        for name in ("one", "other"):
            (state / name).mkdir()
            rooms[name] = namespace.create_room(init, state / name)
            namespace.run(rooms[name], ["sh", "-c", f"echo {name} > /var/log/pods/file"])
        for name in rooms:
            assert (state / name / "var/log/pods/file").read_text() == f"{name}\n"
        assert not Path("/var/log/pods/file").exists()
        assert str(state) not in Path("/proc/self/mountinfo").read_text()
    finally:
        assert init.end(9, within_s=240)
    assert all(room.end(0, within_s=240) for room in rooms.values())


def test_a_process_is_not_mistaken_for_a_later_one(namespace):
    this = namespace.Process.of(os.getpid())
    assert this.is_alive()
    assert not namespace.Process(this.pid, this.started_ticks + 1).is_alive()
