"""Kueue's generator: how many jobs, when they come, and what their queues are entitled to."""

from collections import Counter
from pathlib import Path

import pytest

from gpu_core.adapters.traces.kueue import read_generator
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.policy.policy import Policy
from gpu_core.decisions.policy.quotas import quota_contradictions

FILE = """
cohorts:
- className: cohort
  count: 1
  queuesSets:
  - className: cq
    count: 2
    nominalQuota: 4
    borrowingLimit: 3
    reclaimWithinCohort: Any
    withinClusterQueue: LowerPriority
    workloadsSets:
    - count: 2
      creationIntervalMs: 1500
      workloads:
      - {className: big, runtimeMs: 250, priority: 7, request: 5}
"""


@pytest.fixture
def generator(tmp_path: Path) -> Path:
    path = tmp_path / "generator.yaml"
    path.write_text(FILE)
    return path


def test_the_jobs_of_a_file(generator: Path) -> None:
    """Milliseconds become seconds, and the queues' first jobs come before their second ones."""
    jobs = read_generator(str(generator)).jobs
    assert [(job.job_id, job.submit_s) for job in jobs] == [
        ("cohort-0-cq-0-big-0", 0),
        ("cohort-0-cq-1-big-0", 0),
        ("cohort-0-cq-0-big-1", 1.5),
        ("cohort-0-cq-1-big-1", 1.5),
    ]
    assert {(j.duration_s, j.priority, j.gpu_count) for j in jobs} == {(0.25, 7, 5)}


def test_the_quotas_of_a_file(generator: Path) -> None:
    """They are a part of a policy, in thousandths of GPUs."""
    quotas = read_generator(str(generator)).quotas
    assert quota_contradictions(quotas) == []
    assert Policy(version=1, quotas=quotas).quotas == quotas
    team = quotas.teams["cohort-0-cq-1"]
    assert (team.cohort, team.nominal_quota_milli) == ("cohort-0", {"*": 4000})
    assert team.borrowing_limit_milli == {"*": 3000}


@pytest.mark.parametrize(
    ("name", "queues", "want_jobs", "want_work_gpu_s"),
    [
        pytest.param(
            "baseline", 30, {1: 10_500, 5: 3_000, 20: 1_500}, 1_320, id="15,000 jobs of 30 queues"
        ),
        pytest.param(
            "large", 1_000, {1: 35_000, 5: 11_000, 20: 4_000}, 80.5, id="50,000 of 1,000 queues"
        ),
    ],
)
def test_the_built_in_workloads(
    name: str, queues: int, want_jobs: dict[int, int], want_work_gpu_s: float
) -> None:
    """Jobs by GPUs, and the work of each queue in GPU-seconds."""
    generated = read_generator(name)
    assert Counter(job.gpu_count for job in generated.jobs) == want_jobs
    assert len({job.team for job in generated.jobs}) == queues == len(generated.quotas.teams)
    work_gpu_s = sum(j.duration_s * j.gpu_count for j in generated.jobs)
    assert work_gpu_s == pytest.approx(queues * want_work_gpu_s)
    assert generated.preempts


RULES = "    reclaimWithinCohort: Any\n    withinClusterQueue: LowerPriority\n"


@pytest.mark.parametrize(
    ("rules", "want"),
    [
        pytest.param("\n", None, id="not stated"),
        pytest.param(RULES, True, id="both"),
        pytest.param("    reclaimWithinCohort: Never\n", False, id="never"),
    ],
)
def test_whether_queues_preempt(generator: Path, rules: str, want: bool | None) -> None:
    """As far as one rule for the pool can say it."""
    generator.write_text(FILE.replace(RULES, rules))
    assert read_generator(str(generator)).preempts is want


def test_rules_that_we_do_not_have_are_refused(generator: Path) -> None:
    """Reclaiming without preemption inside the queue."""
    generator.write_text(FILE.replace("LowerPriority", "Never"))
    with pytest.raises(InvalidInput, match=r"cannot be replayed.*Any and Never"):
        read_generator(str(generator))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        pytest.param("nominalQuota", "nominalQuotas", "nominalQuota", id="misspelled"),
        pytest.param("request: 5", "request: many", "request", id="no number"),
        pytest.param("cohorts:", "cohorts: [", "is not valid YAML", id="no YAML"),
    ],
)
def test_a_mistake_is_named(generator: Path, old: str, new: str, said: str) -> None:
    """With the file and the field."""
    generator.write_text(FILE.replace(old, new))
    with pytest.raises(InvalidInput) as raised:
        read_generator(str(generator))
    assert str(generator) in str(raised.value)
    assert said in str(raised.value)
