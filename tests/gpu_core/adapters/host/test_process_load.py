import os
import subprocess
import sys

import psutil

from gpu_core.adapters.host.process_load import ProcessLoad

# Uses a tenth of a second of a core whenever it is asked to.
WORKER = """
import sys, time
for _ in sys.stdin:
    began_s = time.process_time()
    while time.process_time() - began_s < 0.1:
        pass
    print("done", flush=True)
"""


def test_the_load_is_that_of_the_process_and_what_it_started():
    child = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", WORKER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    now_s = [0.0]
    with child:
        load = ProcessLoad(child.pid, without=0, clock_s=lambda: now_s[0])
        others = ProcessLoad(os.getpid(), without=child.pid, clock_s=lambda: now_s[0])
        # The interpreter may still be starting: what it uses between two readings is not known.
        least_before_s = _seconds(child.pid)
        assert (load.cores(), others.cores()) == (None, None)
        most_before_s = _seconds(child.pid)
        print("work", file=child.stdin, flush=True)
        child.stdout.readline()
        now_s[0] = 2.0
        least_s = _seconds(child.pid) - most_before_s
        cores = load.cores()
        assert 0 < least_s / 2.0 <= cores <= (_seconds(child.pid) - least_before_s) / 2.0
        assert load.cores() is None  # no time has passed
        child.stdin.close()


def _seconds(pid):
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


def test_of_a_process_that_is_gone_nothing_is_used():
    gone = subprocess.Popen([sys.executable, "-I", "-S", "-c", ""])
    gone.wait()
    now_s = [0.0]
    load = ProcessLoad(gone.pid, without=0, clock_s=lambda: now_s[0])
    load.cores()
    now_s[0] = 1.0
    assert load.cores() == 0.0
