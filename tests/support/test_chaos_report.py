"""The report of a story of chaos counts what happened."""

from gpu_core.decisions.model.attempts import EndReason
from gpu_core.testing.builders.attempts import make_attempt
from tests.support.chaos_report import Story, report
from tests.support.faults import Deed, Kind
from tests.support.run_journal import lives_of
from tests.support.sight import Sight


def test_a_report_counts_faults_runs_attempts_resumptions_and_violations():
    journal = [
        *("1.0 begin r 1 pod-a 0", "1.5 step r 1 pod-a 1", "1.7 stopped r 1 pod-a 1"),
        *("3.0 begin r 2 pod-b 1", "3.6 end r 2 pod-b 2"),
    ]
    story = Story(
        seed=3,
        took_s=61.6,
        deeds=[
            Deed(Kind.WORKER_KILLED, True, "while a run was judged", 2.0),
            Deed(Kind.POD_DELETED, True, "gpu-1-x", 0.1),
            Deed(Kind.POD_DELETED, False, "no pod ran", 60.0),
        ],
        ends={"r": "Completed"},
        attempts={
            "r": [
                make_attempt("r", 1, end_reason=EndReason.INTERRUPTED),
                make_attempt("r", 2, end_reason=EndReason.COMPLETED),
            ]
        },
        lives=lives_of(journal),
        saving={"r"},
        sight=Sight(looks=60, most_gpus=7, most_running=6),
        gpus=8,
        elsewhere=2,
        left={"Pod": 2, "Job": 1},
        violations=["nobody slept"],
    )
    assert report(story).splitlines() == [
        "chaos, seed 3, 62 s",
        "  faults       2 of 3 struck",
        "    pod deleted           1 of 2",
        "    worker killed         1 of 1: while a run was judged",
        "  runs         1 Completed",
        "  attempts     2: 1 Interrupted, 1 Completed",
        "  processes    2",
        "  resumptions  1 from a checkpoint, 0 of runs that keep none",
        "  GPUs         at most 7 of 8 at a time, in 60 looks",
        "  running      at most 6 pods at a time",
        "  placed       2 elsewhere than planned",
        "  left         1 Job, 2 Pod",
        "  violations   1",
        "    nobody slept",
    ]
