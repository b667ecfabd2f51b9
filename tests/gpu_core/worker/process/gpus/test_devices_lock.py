"""One worker of a machine has its GPUs, whatever other users put in its way."""

import contextlib
import fcntl
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpu_core.worker.process.gpus.devices_lock import DevicesLock

OTHER_USER = 65534
OWN = f"prefect-gpu-devices-{os.geteuid()}.lock"

only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder for all users, as /run/lock is; pytest's own folders are its user's alone."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o1777)
        yield Path(name)


def as_another_user(act: Callable[[], object]) -> str:
    """What this answers, or raises, in a process of another user."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            os.setgroups([])
            os.setgid(OTHER_USER)
            os.setuid(OTHER_USER)
            try:
                answer = repr(act())
            except Exception as error:
                answer = repr(error)
            os.write(write, answer.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as answered:
        answer = answered.read()
    os.waitpid(child, 0)
    return answer


def held(path: Path) -> int:
    """A file that some process holds, as the version before did."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor


def test_one_has_it_until_it_lets_go(folder):
    first, second = DevicesLock([folder]), DevicesLock([folder])
    assert first.acquire()
    assert first.acquire()
    assert not second.acquire()
    assert (first.is_held, second.is_held) == (True, False)
    first.release()
    assert second.acquire()
    second.release()


def test_a_deleted_file_is_made_again(folder):
    lock, other = DevicesLock([folder]), DevicesLock([folder])
    assert lock.acquire()
    (folder / OWN).unlink()
    assert lock.acquire()
    assert not other.acquire()
    lock.release()


def test_who_was_faster_when_the_file_was_deleted_has_it(folder):
    """Another user, who saw no lock any more."""
    lock = DevicesLock([folder])
    assert lock.acquire()
    (folder / OWN).unlink()
    descriptor = held(folder / f"prefect-gpu-devices-{OTHER_USER}.lock")
    assert not lock.acquire()
    assert not lock.is_held
    os.close(descriptor)
    assert lock.acquire()
    lock.release()


def test_it_is_readable_for_all_whatever_the_umask(folder):
    before = os.umask(0o077)
    try:
        lock = DevicesLock([folder])
        assert lock.acquire()
    finally:
        os.umask(before)
    assert stat.S_IMODE((folder / OWN).stat().st_mode) == 0o644
    lock.release()


def test_the_lock_of_the_version_before_counts(folder):
    descriptor = held(folder / "prefect-gpu-devices.lock")
    lock = DevicesLock([folder])
    assert not lock.acquire()
    os.close(descriptor)
    assert lock.acquire()
    lock.release()


def test_the_second_folder_is_looked_at_too(folder, tmp_path):
    descriptor = held(tmp_path / "prefect-gpu-devices-1.lock")
    assert not DevicesLock([folder, tmp_path]).acquire()
    os.close(descriptor)


def test_without_a_folder_it_says_so(tmp_path):
    with pytest.raises(
        PermissionError, match=r"unable to create a lock file in any of \['.*nowhere'\]"
    ):
        DevicesLock([tmp_path / "nowhere"]).acquire()


@pytest.mark.parametrize("squat", ["link", "pipe", "folder", "second link"])
def test_what_stands_in_its_place_is_passed_by_and_not_touched(folder, tmp_path, squat):
    target = tmp_path / "precious"
    target.write_text("mine")
    target.chmod(0o600)
    place = folder / OWN
    {
        "link": lambda: place.symlink_to(target),
        "pipe": lambda: os.mkfifo(place),
        "folder": place.mkdir,
        "second link": lambda: place.hardlink_to(target),
    }[squat]()

    lock, other = DevicesLock([folder]), DevicesLock([folder])
    assert lock.acquire()
    assert not other.acquire()
    assert (target.read_text(), stat.S_IMODE(target.stat().st_mode)) == ("mine", 0o600)
    lock.release()


@only_root
def test_another_user_sees_who_has_it_and_gets_it_afterwards(folder):
    def attempt():
        lock = DevicesLock([folder])
        return lock.acquire(), lock.holder

    lock = DevicesLock([folder])
    assert lock.acquire()
    assert as_another_user(attempt) == "(False, 'root')"
    lock.release()
    assert as_another_user(attempt) == "(True, None)"
    # What the other user left behind blocks no user.
    assert lock.acquire()
    lock.release()


@only_root
@pytest.mark.parametrize("mode", [0o600, 0o666])
def test_a_file_that_another_user_made_first_keeps_no_user_from_it(folder, mode):
    def squat():
        for name in (OWN, "prefect-gpu-devices.lock", "prefect-gpu-devices-1.lock"):
            (folder / name).touch()
            (folder / name).chmod(mode)

    assert as_another_user(squat) == "None"
    lock, other = DevicesLock([folder]), DevicesLock([folder])
    assert lock.acquire()
    assert not other.acquire()
    lock.release()
