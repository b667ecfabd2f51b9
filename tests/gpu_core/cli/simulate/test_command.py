"""`prefect-gpu simulate`: a table for people, JSON for machines, one line for wrong input."""

import json
import os
import re
from itertools import pairwise
from pathlib import Path

import pytest

from gpu_core.adapters.ledger import Ledger
from gpu_core.cli.main import main
from gpu_core.decisions.model.attempts import EndReason
from gpu_core.decisions.policy.policy import parse_policy
from gpu_core.decisions.simulation.policies.named_policies import (
    DEFAULT_POLICY,
    POLICY_NAMES,
    named_policy,
)
from gpu_core.testing.builders.attempts import admit, at, make_attempt, make_run

SHARED_DATA = Path(__file__).parents[5] / "shared" / "data"

LINES = [
    {"job_id": "a", "submit_s": 0, "duration_s": 100, "stated_s": 100},
    {"job_id": "b", "submit_s": 1, "duration_s": 50, "stated_s": 50},
    {"job_id": "c", "submit_s": 2, "duration_s": 10, "stated_s": 10},
]


@pytest.fixture
def workload(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in LINES))
    return path


def arguments(workload: Path, *more: str, nodes: str = "1x1") -> list[str]:
    return ["simulate", "--nodes", nodes, "--workload", str(workload), "--format", "jsonl", *more]


def test_policies_side_by_side_as_json(workload: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """FIFO waits 0, 99 and 148 s; shortest job first 0, 109 and 98 s."""
    more = ["--policy", "fifo", "--policy", "sjf", "--run-times", "stated", "--json"]
    assert main(arguments(workload, *more)) == 0
    fifo, sjf = json.loads(capsys.readouterr().out)
    assert (fifo["policy"], sjf["policy"]) == ("fifo", "sjf")
    assert fifo["metrics"]["wait_s"]["mean"] == pytest.approx((0 + 99 + 148) / 3)
    assert sjf["metrics"]["wait_s"]["mean"] == pytest.approx((0 + 109 + 98) / 3)


def test_a_table_for_people(workload: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A column for the policy, a row for each number."""
    assert main(arguments(workload, "--policy", "fifo")) == 0
    out = capsys.readouterr().out
    assert "fifo" in out
    assert "3 of 3" in out


def test_a_policy_file(workload: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One's own policy, with a price: 160 s of one GPU at 3.60 USD per hour are 16 cents."""
    policy = workload.with_name("policy.yaml")
    policy.write_text("version: 1\nprices: {gpu: {on-demand: 3.6}}\n")
    assert main(arguments(workload, "--policy", str(policy), "--json")) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["metrics"]["cost_micro_usd"] == 160_000


GENERATOR = """
cohorts:
- className: cohort
  count: 1
  queuesSets:
  - className: queue
    count: 1
    nominalQuota: 1
    borrowingLimit: 0
    workloadsSets:
    - count: 2
      creationIntervalMs: 0
      workloads: [{className: job, runtimeMs: 1000, request: 1}]
"""


@pytest.mark.parametrize(
    ("quota", "wait_s"), [pytest.param(1, 0.5, id="in turn"), pytest.param(2, 0, id="at once")]
)
def test_a_generators_quotas_hold(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], quota: int, wait_s: float
) -> None:
    """Two jobs of a second, two GPUs: a queue with a quota of 1 runs one after the other."""
    path = tmp_path / "generator.yaml"
    path.write_text(GENERATOR.replace("nominalQuota: 1", f"nominalQuota: {quota}"))
    more = ["--format", "kueue", "--policy", "fifo", "--json"]
    assert main(["simulate", "--nodes", "1x2", "--workload", str(path), *more]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["metrics"]["wait_s"]["mean"] == pytest.approx(wait_s)


@pytest.mark.parametrize(
    ("rules", "want_preemptions"),
    [
        pytest.param("reclaimWithinCohort: Any", 1, id="what was lent is taken back"),
        pytest.param("reclaimWithinCohort: Never", 0, id="or waited for"),
    ],
)
def test_a_generators_rules_of_preemption_hold(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], rules: str, want_preemptions: int
) -> None:
    """After 5 s `a` has the whole cohort; a second later `b` wants the half that is its own."""
    within = "LowerPriority" if "Any" in rules else "Never"

    def queue(name: str, jobs: int, interval_ms: int) -> str:
        return (
            f"  - {{className: {name}, count: 1, nominalQuota: 1, {rules},\n"
            f"     withinClusterQueue: {within}, workloadsSets: [{{count: {jobs},\n"
            f"     creationIntervalMs: {interval_ms},\n"
            "     workloads: [{className: job, runtimeMs: 5000, request: 1}]}]}\n"
        )

    path = tmp_path / "generator.yaml"
    path.write_text(
        "cohorts:\n- className: cohort\n  count: 1\n  queuesSets:\n"
        + queue("a", 3, 0)
        + queue("b", 2, 6000)
    )
    more = ["--format", "kueue", "--policy", "priority", "--json"]
    assert main(["simulate", "--nodes", "1x2", "--workload", str(path), *more]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["metrics"]["preemptions"] == want_preemptions


@pytest.mark.parametrize(
    ("policies", "want"),
    [
        pytest.param(["fifo"], ["fifo", "default"], id="beside the others"),
        pytest.param(["default", "fifo"], ["default", "fifo"], id="once"),
    ],
)
def test_ones_own_ledger(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], policies: list[str], want: list[str]
) -> None:
    """Two runs of an hour that were submitted at once wait half an hour; the default is shown."""
    path = tmp_path / "ledger.db"
    with Ledger.open(f"sqlite:///{path}") as ledger:
        for run_id in ("a", "b"):
            admit(ledger, make_attempt(run_id, released_at=at(1), end_reason=EndReason.COMPLETED))
    more = [text for name in policies for text in ("--policy", name)]
    options = ["simulate", "--nodes", "1x1", "--workload", str(path), "--format", "ledger", *more]
    assert main([*options, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["policy"] for row in rows] == want
    assert [row["metrics"]["wait_s"]["mean"] for row in rows] == pytest.approx([1800, 1800])


def test_a_ledger_of_runs_that_resume_shows_what_taking_turns_gains(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A long run is there first: the short one waits for its end, or takes its GPU."""
    path = tmp_path / "ledger.db"
    saved = {"checkpoint": "c", "checkpointed_at": at(50), "first_step_at": at(0)}
    again = {"restored_from": "c", "first_step_at": at(50)}
    with Ledger.open(f"sqlite:///{path}") as ledger:
        for number in range(3):
            run = make_run(f"long-{number}", submitted_at=at(number * 100))
            preempted = {"released_at": at(50), "end_reason": EndReason.PREEMPTED}
            completed = {"released_at": at(90), "end_reason": EndReason.COMPLETED}
            admit(ledger, make_attempt(run.flow_run_id, 1, **saved, **preempted), run)
            again |= {"admitted_at": at(50)}
            admit(ledger, make_attempt(run.flow_run_id, 2, **again, **completed), run)
        short = make_run("short", submitted_at=at(20))
        ended = {"released_at": at(21), "end_reason": EndReason.COMPLETED}
        admit(ledger, make_attempt("short", admitted_at=at(20), **ended), short)
    options = ["simulate", "--nodes", "1x1", "--workload", str(path), "--format", "ledger"]
    assert main([*options, "--policy", "fifo", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["policy"] for row in rows] == ["fifo", "resumable", "default"]
    assert [row["metrics"]["preemptions"] for row in rows] == [0, 1, 0]
    assert main([*options, "--policy", "fifo"]) == 0
    assert "of the GPU-hours are of deployments whose runs" in capsys.readouterr().out


def test_the_default_is_the_policy_of_a_file_that_states_nothing() -> None:
    """Whatever its defaults are."""
    assert named_policy(DEFAULT_POLICY) == parse_policy({"version": 1}, source="empty")


@pytest.mark.parametrize(
    ("page", "pattern"),
    [
        pytest.param("command-reference.md", r"policy file, or one of (.*?); may be", id="help"),
        pytest.param("simulator.md", r"`--policy` accepts the names (.*?)\.", id="docs"),
    ],
)
def test_help_and_docs_name_every_policy(page: str, pattern: str) -> None:
    """A name that neither mentions is a name that is never found."""
    text = (Path(__file__).parents[4] / "docs" / page).read_text().replace("\n", " ")
    [names] = re.findall(pattern, text)
    named = re.split(r", | and ", names.replace("`", ""))
    assert sorted(named) == list(POLICY_NAMES)


def test_a_spot_node_that_is_taken_back(workload: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`a` has saved 60 of its 80 s when its node goes at 80 s; it goes on at 200 s, for 40 s."""
    events, policy = workload.with_name("events.jsonl"), workload.with_name("policy.yaml")
    events.write_text(
        '{"at_s": 80, "node": "spot-0", "event": "interruption"}\n'
        '{"at_s": 200, "node": "spot-0", "event": "recovery"}\n'
    )
    policy.write_text("version: 1\nprices: {gpu: {spot: 3.6}}\n")
    workload.write_text(json.dumps(LINES[0]))
    more = ["--policy", str(policy), "--events", str(events), "--checkpoint-interval", "30"]
    assert main(arguments(workload, *more, "--json", nodes="1x1:spot")) == 0
    (row,) = json.loads(capsys.readouterr().out)
    found = row["metrics"]
    assert (found["interruptions"], found["recoveries"], found["mean_recovery_s"]) == (1, 1, 120)
    assert found["lost_gpu_h"] == pytest.approx(20 / 3600)
    assert found["cost_micro_usd"] == 120_000
    assert found["makespan_s"] == 240


def test_a_checkpoint_cost_without_checkpoints_is_refused(
    workload: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing would take that time."""
    assert main(arguments(workload, "--policy", "fifo", "--checkpoint-cost", "5s")) == 2
    assert "checkpoint-cost has no effect" in capsys.readouterr().err


def test_pods_in_an_order_of_their_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Half a GPU, then a whole one, on two GPUs: three quarters, by either strategy."""
    header = "name,cpu_milli,memory_mib,num_gpu,gpu_milli"
    (tmp_path / "nodes.csv").write_text("sn,cpu_milli,memory_mib,gpu,model\nn0,9,9,2,T4\n")
    (tmp_path / "pods.csv").write_text(
        f"{header}\nopenb-pod-0000,1,1,1,500\nopenb-pod-0001,1,1,1,1000\n"
    )
    (tmp_path / "order.txt").write_text("0001\n0000\n")
    options = [
        *("--nodes", str(tmp_path / "nodes.csv"), "--workload", str(tmp_path / "pods.csv")),
        *("--format", "openb", "--order", str(tmp_path / "order.txt")),
        *("--policy", "fragmentation-aware", "--policy", "greedy"),
    ]
    assert main(["simulate", *options, "--json"]) == 0
    columns = json.loads(capsys.readouterr().out)
    assert [column["policy"] for column in columns] == ["fragmentation-aware", "greedy"]
    assert [column["offering"]["allocated_percent"] for column in columns] == [75, 75]
    assert main(["simulate", *options]) == 0
    assert "75.00%" in capsys.readouterr().out


def test_an_order_without_effect_is_refused(
    workload: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only OpenB's pods are offered in an order of their own."""
    assert main(arguments(workload, "--policy", "fifo", "--order", str(workload))) == 2
    assert "order has no effect" in capsys.readouterr().err


@pytest.mark.parametrize("name", POLICY_NAMES)
@pytest.mark.parametrize("run_times", ["none", "noisy", "learned"])
def test_every_named_policy_finishes_all_jobs(
    workload: Path, capsys: pytest.CaptureFixture[str], name: str, run_times: str
) -> None:
    """Whatever is known of run times."""
    more = ["--policy", name, "--run-times", run_times, "--restart-cost", "30s", "--tick", "1m"]
    assert main(arguments(workload, *more, "--json")) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["metrics"]["finished"] == len(LINES)


@pytest.mark.parametrize(
    ("more", "nodes", "message"),
    [
        pytest.param(["--policy", "fifoo"], "1x1", "Did you mean 'fifo'", id="policy"),
        pytest.param(["--policy", "fifo"], "many", "nodes is not a cluster", id="nodes"),
        pytest.param(
            ["--policy", "fifo", "--restart-cost", "soon"], "1x1", "restart-cost", id="duration"
        ),
        pytest.param(
            ["--policy", "fifo", "--entitlements", "absent.csv"], "1x1", "absent.csv", id="file"
        ),
    ],
)
def test_wrong_input_is_one_line_and_exits_with_2(
    workload: Path,
    capsys: pytest.CaptureFixture[str],
    more: list[str],
    nodes: str,
    message: str,
) -> None:
    """The field, what came, what would be accepted."""
    assert main(arguments(workload, *more, nodes=nodes)) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_the_order_of_waits_on_a_real_trace(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    """On 1,000 jobs of Philly and 16 GPUs: shortest remaining service, shortest job, FIFO."""
    trace = Path(os.environ.get("PREFECT_GPU_DATA", SHARED_DATA)) / "queueing/philly_oct2017.csv"
    if not trace.is_file():
        pytest.skip(f"no trace at {trace}; set PREFECT_GPU_DATA")
    part = tmp_path / "part.csv"
    part.write_text("".join(trace.read_text().splitlines(keepends=True)[:1001]))
    policies = [text for name in ("srsf", "sjf", "fifo") for text in ("--policy", name)]
    options = ["--nodes", "count:128", "--workload", str(part), "--format", "philly"]
    assert main(["simulate", *options, *policies, "--run-times", "true", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    waits_s = [row["metrics"]["wait_s"]["mean"] for row in rows]
    assert all(less < more for less, more in pairwise(waits_s))
