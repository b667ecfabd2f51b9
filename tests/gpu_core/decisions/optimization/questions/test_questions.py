"""Each question is answered from the ledger's rows, and says so."""

from collections.abc import Sequence
from datetime import UTC, date, datetime
from itertools import chain

import pytest

from gpu_core.decisions.costs.usage.usage_cost import Window
from gpu_core.decisions.model.attempts import Attempt, EndReason, RunRecord
from gpu_core.decisions.model.cluster import NodeShare
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.gpu_summary import GpuSummary
from gpu_core.decisions.optimization.questions.answers import Answer, answer
from gpu_core.decisions.optimization.questions.borrowing import Quotas
from gpu_core.decisions.optimization.questions.parsing import Asked, parse_question
from gpu_core.decisions.optimization.questions.questions import QUESTIONS, Question, Unit
from gpu_core.decisions.policy.quotas import QuotaPolicy
from gpu_core.testing.builders.attempts import NOON, at, make_attempt, make_run

DAY = NOON.date()
NOW = at(24)
ON_SPOT = {"capacity_type": "spot", "zone": "zone-b", "node": "node-2"}
ON_H100 = {"gpu_type": "h100", "zone": "zone-c", "price_micro_usd_per_gpu_hour": 3_000_000}
OF_AUDIO = {
    "deployment": "eval/gpu", "team": "audio", "project": "asr", "user": "bob", "model": "m2",
    "experiment": "words", "workload_type": "inference", "queue": "critical",
}  # fmt: skip


def ended(run: str, begin: float, end: float, reason: EndReason, **fields: object) -> Attempt:
    """An attempt on one GPU from one hour after noon to another."""
    times = {"admitted_at": at(begin), "started_at": at(begin), "released_at": at(end)}
    return make_attempt(run, **(times | {"end_reason": reason} | fields))


def records() -> list[tuple[RunRecord, Sequence[Attempt]]]:
    """Six runs of an afternoon: of each kind of trouble one."""
    idle = (GpuSummary(gpu_id="GPU-0", samples=9, busy_ratio=0.25),)
    done, failed = EndReason.COMPLETED, EndReason.FAILED
    return [
        (make_run("plain"), [ended("plain", 0, 2, done, gpu_summaries=idle)]),
        (make_run("broken", **OF_AUDIO), [ended("broken", 0.5, 1.5, failed, **ON_H100)]),
        (
            make_run("moved"),
            [
                ended("moved", 0, 1, EndReason.INTERRUPTED, checkpoint="c", **ON_SPOT,
                      checkpointed_at=at(0.5)),
                ended("moved", 2, 4, done, number=2, restored_from="c", **ON_SPOT,
                      started_at=at(2.25), first_step_at=at(2.5)),
            ],
        ),
        (
            make_run("again", **OF_AUDIO),
            [ended("again", 0, 0.5, failed, **ON_H100),
             ended("again", 1, 2, done, number=2, **ON_H100)],
        ),
        (make_run("evicted"), [ended("evicted", 0, 1, EndReason.PREEMPTED)]),
        (
            make_run("free", deployment=None, flow_name="notebook", team=None),
            [ended("free", 0, 1, done, gpu_type="b300", price_micro_usd_per_gpu_hour=None)],
        ),
    ]  # fmt: skip


ONE_EACH = QuotaPolicy.model_validate({"teams": {"vision": {"nominal_quota": {"*": 1}}}})


def ask(text: str) -> Answer:
    """The answer about that day."""
    return answer(parse_question(f"{text} {DAY}", NOW), records(), NOW, Quotas(ONE_EACH, ()))


def rows(text: str) -> list[tuple[str | None, float]]:
    """Names and numbers, money in dollars."""
    found = ask(text)
    is_usd = found.asked.question.kind.unit is Unit.USD
    return [(row.key, row.amount / 1e6 if is_usd else row.amount) for row in found.rows]


BY_TEAM = [("audio", 7.5), ("vision", 6.0)]
BY_DEPLOYMENT = [("eval/gpu", 7.5), ("train/gpu", 6.0)]

WANT: dict[str, list[tuple[str | None, float]]] = {
    "most expensive workloads": BY_DEPLOYMENT,
    "most expensive runs": [
        ("again", 4.5), ("broken", 3.0), ("moved", 3.0), ("plain", 2.0), ("evicted", 1.0),
    ],
    "most expensive teams": BY_TEAM,
    "most expensive projects": [("asr", 7.5), ("detector", 6.0)],
    "most expensive users": [("bob", 7.5), ("ada", 6.0)],
    "most expensive experiments": [("words", 7.5), ("detector", 6.0)],
    "most expensive models": [("m2", 7.5), (None, 6.0)],
    "most expensive GPU types": [("h100", 7.5), ("a10g", 6.0)],
    "most expensive zones": [("zone-c", 7.5), (None, 3.0), ("zone-b", 3.0)],
    "most expensive nodes": [("node-1", 10.5), ("node-2", 3.0)],
    "most expensive days": [("2026-03-04", 13.5)],
    "cost by workload type": [("inference", 7.5), ("training", 6.0)],
    "cost of spot and on-demand": [("on-demand", 10.5), ("spot", 3.0)],
    "cost by queue": [("critical", 7.5), ("medium", 6.0)],
    "total cost": [("all runs", 13.5)],
    "GPU-hours by team": [("vision", 6.0), ("audio", 2.5), (None, 1.0)],
    "GPU-hours by user": [("ada", 7.0), ("bob", 2.5)],
    "GPU-hours by workload": [("train/gpu", 6.0), ("eval/gpu", 2.5), ("notebook", 1.0)],
    "GPU-hours by GPU type": [("a10g", 6.0), ("h100", 2.5), ("b300", 1.0)],
    "who borrows": [("audio", 2.5), ("vision", 2.0), (None, 1.0)],
    "how much work was lost": [("Failed", 4.5), ("Preempted", 1.0), ("Interrupted", 0.5)],
    "which workloads lost most work": [("eval/gpu", 4.5), ("train/gpu", 1.5)],
    "which teams lost most work": [("audio", 4.5), ("vision", 1.5)],
    "what did failures cost": [("eval/gpu", 4.5)],
    "which failed runs cost most": [("broken", 3.0), ("again", 1.5)],
    "what did retries cost": [("eval/gpu", 1.5)],
    "what did interruptions cost": [("train/gpu", 1.75)],
    "what did preemptions cost": [("train/gpu", 1.0)],
    "what did waiting for images cost": [("train/gpu", 0.25)],
    "what did idle GPUs cost": [("train/gpu", 1.5)],
    "which runs left GPUs idle": [("plain", 1.5)],
    "least used GPUs by workload": [("train/gpu", 0.25)],
    "how much did checkpoints save": [("train/gpu", 0.5)],
    "how did runs end": [("Completed", 4), ("Failed", 2), ("Interrupted", 1), ("Preempted", 1)],
    "which workloads fail most often": [("eval/gpu", 2)],
    "which workloads are interrupted most often": [("train/gpu", 2)],
    "which zones are interrupted most often": [("zone-b", 1)],
    "which runs waited longest": [
        ("moved", 1.0), ("again", 0.5), ("broken", 0.5), ("evicted", 0.0), ("free", 0.0),
        ("plain", 0.0),
    ],
    "which teams wait longest": [("audio", 0.5), ("vision", 1 / 3), (None, 0.0)],
    "which runs took longest": [
        ("moved", 3.0), ("plain", 2.0), ("again", 1.5), ("broken", 1.0), ("evicted", 1.0),
        ("free", 1.0),
    ],
    "what has no price": [("b300", 1.0)],
}  # fmt: skip


def test_each_question_has_a_test() -> None:
    assert [question.text for question in QUESTIONS] == list(WANT)


@pytest.mark.parametrize("text", WANT)
def test_a_question_is_answered_from_the_rows(text: str) -> None:
    named = {f"name-of-{run.flow_run_id}": run.flow_run_id for run, _ in records()}
    found = [(named.get(str(key), key), amount) for key, amount in rows(text)]
    assert [key for key, _ in found] == [key for key, _ in WANT[text]]
    assert [amount for _, amount in found] == pytest.approx([want for _, want in WANT[text]])


def test_each_node_of_a_gang_has_its_part_of_the_cost() -> None:
    """Three GPUs on one node and one on another, for two hours at 1 USD: not 8 USD on the first."""
    shares = (
        NodeShare(node="node-1", gpu_ids=("GPU-0", "GPU-1", "GPU-2")),
        NodeShare(node="node-2", gpu_ids=("GPU-3",)),
    )
    gpu_ids = tuple(gpu_id for share in shares for gpu_id in share.gpu_ids)
    gang = ended("gang", 0, 2, EndReason.COMPLETED, shares=shares, gpu_ids=gpu_ids)
    asked = parse_question(f"most expensive nodes {DAY}", NOW)
    found = answer(asked, [(make_run("gang"), [gang])], NOW)
    assert [(row.key, row.amount) for row in found.rows] == [
        ("node-1", 6_000_000),
        ("node-2", 2_000_000),
    ]


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.text)
def test_every_wording_is_that_question_and_no_other(question: Question) -> None:
    for text in (question.text, *question.also):
        for asked in (text, f"{text.upper()}?", f"what is the {text} this week"):
            assert parse_question(asked, NOW).question is question


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("cost", "total cost"),
        ("How much did we spend last week?", "total cost"),
        ("what costs us the most", "most expensive workloads"),
        ("which teams spent the most", "most expensive teams"),
        ("GPU hours by team", "GPU-hours by team"),
        ("gpu hours per user", "GPU-hours by user"),
    ],
)
def test_a_wording_that_is_not_listed_is_read_as_meant(text: str, want: str) -> None:
    assert parse_question(text, NOW).question.text == want


def test_the_origin_names_rows_and_time() -> None:
    found = ask("most expensive workloads")
    assert found.total == 13_500_000
    assert found.origin == (
        "8 attempts of 6 runs in the ledger from 2026-03-04 up to 2026-03-05, UTC: "
        "the resources allocated to each attempt, at the price recorded in the ledger"
    )


def test_money_adds_up_to_the_micro_dollar_also_where_shares_are_fractions() -> None:
    price = {"price_micro_usd_per_gpu_hour": 1_000_001, "price_source": "x"}
    thirds = [
        (make_run(f"r{n}", team=f"t{n}"), [ended(f"r{n}", 0, 1 / 3, EndReason.COMPLETED, **price)])
        for n in range(3)
    ]
    found = answer(parse_question(f"most expensive teams {DAY}", NOW), thirds, NOW)
    assert sum(row.amount for row in found.rows) == found.total == 1_000_001


def test_days_of_a_run_over_midnight_are_apart() -> None:
    week = parse_question("cost per day this week", at(36))
    late = [(make_run("late"), [ended("late", 10, 14, EndReason.COMPLETED)])]
    found = answer(week, late, at(36))
    assert [(row.key, row.amount) for row in found.rows] == [
        ("2026-03-04", 2_000_000),
        ("2026-03-05", 2_000_000),
    ]


def day(text: str) -> datetime:
    """Midnight of a day in UTC."""
    return datetime.combine(date.fromisoformat(text), datetime.min.time(), UTC)


@pytest.mark.parametrize(
    ("words", "first", "end"),
    [
        pytest.param("", "2026-02-25", "2026-03-04", id="the last 7 whole days"),
        pytest.param("today", "2026-03-04", "2026-03-05", id="today"),
        pytest.param("yesterday?", "2026-03-03", "2026-03-04", id="yesterday"),
        pytest.param("this week", "2026-03-02", "2026-03-05", id="from Monday"),
        pytest.param("last week", "2026-02-23", "2026-03-02", id="the week before"),
        pytest.param("this month", "2026-03-01", "2026-03-05", id="this month"),
        pytest.param("last month", "2026-02-01", "2026-03-01", id="the month before"),
        pytest.param("in the last 14 days", "2026-02-18", "2026-03-04", id="a number of days"),
        pytest.param("on Tuesday", "2026-03-03", "2026-03-04", id="the last Tuesday"),
        pytest.param("last wednesday", "2026-02-25", "2026-02-26", id="not today, a Wednesday"),
        pytest.param("2026-01-31", "2026-01-31", "2026-02-01", id="a date"),
    ],
)
def test_the_time_of_a_question(words: str, first: str, end: str) -> None:
    asked = parse_question(f"total cost {words}", at(0))
    assert asked == Asked(asked.question, Window(day(first), day(end)))


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("who is in the kitchen", "question is not one of the known questions"),
        ("which zone is most costly for teams", "such as 'most expensive "),
        ("", "is not one of the known questions"),
        ("total cost 2026-02-30", "question contains an invalid date"),
        ("total cost 2027-01-01", "question must not refer to a future date"),
        ("total cost last 0 days", "question specifies an invalid number of days"),
        ("total cost last 367 days", "Allowed: 1 to 366"),
        (f"total cost last {'9' * 5000} days", "unsupported number"),
    ],
)
def test_what_is_not_known_gets_the_nearest_questions(text: str, want: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_question(text, at(0))
    assert want in str(refused.value)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("most expensive runs on 24.11.2026", "24.11.2026"),
        ("most expensive runs of 2025", "2025"),
        ("most expensive runs 2026-03-01 to 2026-03-03", "2026-03-03"),
        ("GPU-hours by team of a100", "a100"),
        ("cost of team 7", "7"),
    ],
)
def test_a_number_is_never_left_out_of_a_question(text: str, want: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_question(text, at(0))
    assert f"contains an unsupported number (got '{want}')" in str(caught.value)


def test_known_words_lead_to_the_nearest_questions() -> None:
    with pytest.raises(InvalidInput, match="'what did failures cost'"):
        parse_question("failures cost us dearly", at(0))
    texts = list(chain.from_iterable((q.text, *q.also) for q in QUESTIONS))
    assert len(texts) == len(set(texts))
