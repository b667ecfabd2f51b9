"""The questions that `prefect-gpu optimize ask` answers: what each sums up, by what."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from gpu_core.decisions.costs.anomalies.decomposition.parts import Purpose
from gpu_core.decisions.model.attempts import EndReason


class Unit(StrEnum):
    """The unit of an answer's numbers."""

    USD = "USD"
    GPU_HOURS = "GPU-hours"
    HOURS = "hours"
    COUNT = "count"
    RATIO = "ratio"


class Measure(StrEnum):
    """The quantity that is summed."""

    COST = "cost"
    GPU_HOURS = "gpu_hours"
    UNPRICED = "unpriced"
    WASTE = "waste"
    """The cost of the time that was for one of the question's purposes."""
    LOST = "lost"
    """The cost of work that was lost with an attempt."""
    SAVED = "saved"
    """The cost of work that a checkpoint kept."""
    ENDS = "ends"
    RUNS = "runs"
    WAIT = "wait"
    HELD = "held"
    BORROWED = "borrowed"
    """GPU-hours beyond the nominal quota of a policy."""
    BUSY = "busy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """The kind of a measure, by which it is read."""

    unit: Unit
    origin: str
    """The source of its numbers."""
    is_mean: bool = False
    """A mean instead of a sum, which has no total."""


_PRICED = "the resources allocated to each attempt, at the price recorded in the ledger"

KINDS: Mapping[Measure, Kind] = MappingProxyType(
    {
        Measure.COST: Kind(unit=Unit.USD, origin=_PRICED),
        Measure.GPU_HOURS: Kind(
            unit=Unit.GPU_HOURS, origin="GPUs allocated to each attempt, from admission to release"
        ),
        Measure.UNPRICED: Kind(
            unit=Unit.GPU_HOURS, origin="GPU-hours of attempts without a price in the ledger"
        ),
        Measure.WASTE: Kind(unit=Unit.USD, origin=f"the requested share of {_PRICED}"),
        Measure.LOST: Kind(
            unit=Unit.USD,
            origin="the time since the last checkpoint of attempts that did not complete",
        ),
        Measure.SAVED: Kind(
            unit=Unit.USD, origin="the time up to the checkpoint restored by a later attempt"
        ),
        Measure.ENDS: Kind(unit=Unit.COUNT, origin="attempts by end reason"),
        Measure.RUNS: Kind(unit=Unit.COUNT, origin="flow runs with an attempt in this period"),
        Measure.WAIT: Kind(
            unit=Unit.HOURS,
            origin="from submission to admission, and from an attempt's end to the next one's",
            is_mean=True,
        ),
        Measure.HELD: Kind(
            unit=Unit.HOURS, origin="from admission to release of each attempt in this period"
        ),
        Measure.BORROWED: Kind(
            unit=Unit.GPU_HOURS,
            origin="GPUs used by each team in excess of its nominal quota in the policy",
        ),
        Measure.BUSY: Kind(
            unit=Unit.RATIO,
            origin="GPU samples of all attempts, weighted by time, excluding attempts without "
            "samples",
            is_mean=True,
        ),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question: `measure` of what is asked for, for each value of `by`."""

    text: str
    by: str | None
    """run, day, or a column of runs or attempts; None: one number for all."""
    measure: Measure = Measure.COST
    also: tuple[str, ...] = ()
    """Other ways to ask it."""
    purposes: frozenset[Purpose] = frozenset()
    """For `WASTE`."""
    reasons: frozenset[EndReason] = frozenset()
    """For `LOST` and `ENDS`: how the attempts ended; empty: in any way but completed."""
    is_ascending: bool = False

    @property
    def kind(self) -> Kind:
        """The kind by which its numbers are read."""
        return KINDS[self.measure]


_FAILED = frozenset({EndReason.FAILED, EndReason.CRASHED})
_INTERRUPTED = frozenset({EndReason.INTERRUPTED})
_PREEMPTED = frozenset({EndReason.PREEMPTED})


def _waste(text: str, by: str, *purposes: Purpose, also: tuple[str, ...] = ()) -> Question:
    return Question(
        text=text, by=by, measure=Measure.WASTE, purposes=frozenset(purposes), also=also
    )


QUESTIONS = (
    Question(text="most expensive workloads", by="deployment",
             also=("cost by deployment", "what cost most")),
    Question(text="most expensive runs", by="run", also=("cost by run",)),
    Question(text="most expensive teams", by="team",
             also=("cost by team", "who spends most", "what does each team cost")),
    Question(text="most expensive projects", by="project", also=("cost by project",)),
    Question(text="most expensive users", by="user", also=("cost by user",)),
    Question(text="most expensive experiments", by="experiment", also=("cost by experiment",)),
    Question(text="most expensive models", by="model", also=("cost by model",)),
    Question(text="most expensive GPU types", by="gpu_type", also=("cost by GPU type",)),
    Question(text="most expensive zones", by="zone", also=("cost by zone",)),
    Question(text="most expensive nodes", by="node", also=("cost by node",)),
    Question(text="most expensive days", by="day", also=("cost by day", "cost per day")),
    Question(text="cost by workload type", by="workload_type", also=("training or inference",)),
    Question(text="cost of spot and on-demand", by="capacity_type",
             also=("spot or on-demand", "cost by capacity type")),
    Question(text="cost by queue", by="queue", also=("cost by priority",)),
    Question(text="total cost", by=None,
             also=("what did everything cost", "cost", "what did we pay")),
    Question(text="GPU-hours by team", by="team", measure=Measure.GPU_HOURS,
             also=("who uses most GPUs", "who uses most GPU-hours")),
    Question(text="GPU-hours by user", by="user", measure=Measure.GPU_HOURS),
    Question(text="GPU-hours by workload", by="deployment", measure=Measure.GPU_HOURS),
    Question(text="GPU-hours by GPU type", by="gpu_type", measure=Measure.GPU_HOURS),
    Question(text="who borrows", by="team", measure=Measure.BORROWED,
             also=("which teams borrow", "borrowed GPU-hours by team")),
    Question(text="how much work was lost", by="end_reason", measure=Measure.LOST,
             also=("lost work by reason", "what was wasted")),
    Question(text="which workloads lost most work", by="deployment", measure=Measure.LOST),
    Question(text="which teams lost most work", by="team", measure=Measure.LOST),
    Question(text="what did failures cost", by="deployment", measure=Measure.LOST,
             reasons=_FAILED, also=("what did the failure cost", "cost of failures")),
    Question(text="which failed runs cost most", by="run", measure=Measure.LOST, reasons=_FAILED,
             also=("most expensive failures",)),
    _waste("what did retries cost", "deployment", Purpose.RETRY, also=("cost of retries",)),
    _waste("what did interruptions cost", "deployment", Purpose.INTERRUPTION,
           also=("cost of interruptions",)),
    Question(text="what did preemptions cost", by="deployment", measure=Measure.LOST,
             reasons=_PREEMPTED, also=("cost of preemptions",)),
    _waste("what did waiting for images cost", "deployment", Purpose.NODE_WAIT,
           also=("what did slow starts cost", "cost of waiting on nodes")),
    _waste("what did idle GPUs cost", "deployment", Purpose.IDLE, also=("cost of idle GPUs",)),
    _waste("which runs left GPUs idle", "run", Purpose.IDLE, also=("most expensive idle runs",)),
    Question(text="least used GPUs by workload", by="deployment", measure=Measure.BUSY,
             also=("GPU utilization by workload", "utilization by workload"), is_ascending=True),
    Question(text="how much did checkpoints save", by="deployment", measure=Measure.SAVED,
             also=("what did checkpoints save",)),
    Question(text="how did runs end", by="end_reason", measure=Measure.ENDS,
             reasons=frozenset(EndReason), also=("attempts by end reason",)),
    Question(text="which workloads fail most often", by="deployment", measure=Measure.ENDS,
             reasons=_FAILED, also=("most failures",)),
    Question(text="which workloads are interrupted most often", by="deployment",
             measure=Measure.ENDS, reasons=_INTERRUPTED | _PREEMPTED),
    Question(text="which zones are interrupted most often", by="zone", measure=Measure.ENDS,
             reasons=_INTERRUPTED),
    Question(text="which runs waited longest", by="run", measure=Measure.WAIT,
             also=("why is it late", "longest waits")),
    Question(text="which teams wait longest", by="team", measure=Measure.WAIT,
             also=("wait by team",)),
    Question(text="which runs took longest", by="run", measure=Measure.HELD,
             also=("longest runs",)),
    Question(text="what has no price", by="gpu_type", measure=Measure.UNPRICED,
             also=("which GPU types are unpriced",)),
)  # fmt: skip
"""The page docs/questions.md is made of these questions."""
