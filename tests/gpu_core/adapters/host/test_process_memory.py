import os
import subprocess
import sys

from gpu_core.adapters.host.process_memory import memory_bytes

MIB = 2**20

# A parent whose child writes to 64 MiB of its own, and to 64 MiB that they share.
PROGRAM = """
import mmap, os, sys
shared = mmap.mmap(-1, 64 * 2**20)
shared.write(b"x" * len(shared))
own = bytearray(b"x" * (64 * 2**20)) if os.fork() == 0 else b""
sum(shared[::4096])
print("ready", flush=True)
sys.stdin.read()
"""


def test_memory_is_that_of_all_processes_and_what_they_share_counts_once():
    parent = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with parent:
        assert [parent.stdout.readline() for _ in range(2)] == ["ready\n", "ready\n"]
        found = memory_bytes(parent.pid, without=0)
        parent.stdin.close()
    # 128 MiB and two interpreters; with what is shared counted twice it would be 192.
    assert 128 * MIB < found < 180 * MIB


def test_a_process_that_has_ended_has_no_known_memory():
    ended = subprocess.Popen([sys.executable, "-I", "-S", "-c", ""])
    ended.wait()
    assert memory_bytes(ended.pid, without=0) is None


def test_the_observer_does_not_count():
    everything = memory_bytes(os.getpid(), without=0)
    assert memory_bytes(os.getpid(), without=os.getpid()) < everything
