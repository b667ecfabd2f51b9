"""The consequences of an attempt's end for the ledger, the run's state and its next attempt."""

import signal
from dataclasses import dataclass, replace
from typing import Literal

from gpu_core.decisions.attempts.diagnosis import Diagnosis
from gpu_core.decisions.model.attempts import MAX_EXCUSED, EndReason
from gpu_core.decisions.model.errors import InvalidInput, ended, listed, nearest_name

NextState = Literal["AwaitingRetry", "Scheduled", "Cancelled", "Completed", "Failed", "Crashed"]

PREFECT_STATE_TYPES = frozenset(
    {
        "SCHEDULED",
        "PENDING",
        "RUNNING",
        "COMPLETED",
        "FAILED",
        "CRASHED",
        "CANCELLED",
        "CANCELLING",
        "PAUSED",
    }
)

# Ends of messages: what happens to the run after the attempt.
_REQUEUED = ". The run was requeued"
_RETRYING = ". Retrying the run"
_WAITING_FOR_USER = ". The run is not charged and remains on hold until a user resolves this"
_NOT_RETRIED = ". The run is not retried"

# States in which a run waits for a worker to start it.
_WAITING = frozenset({"AwaitingRetry", "Scheduled"})

# Ends of attempts of which nothing ran, and Prefect has the run as it was before them.
_WITHOUT_START = frozenset({EndReason.CANCELLED, EndReason.POSTPONED})


@dataclass(frozen=True, slots=True, kw_only=True)
class EndFacts:
    """The facts about an attempt whose last process is gone."""

    prefect_state_type: str | None
    """The run's state type in Prefect; None: the run was deleted."""
    was_started: bool
    """Whether a process was ever created for this attempt."""
    exit_is_known: bool
    """Whether anything that saw the process end survived."""
    exit_code: int | None = None
    """Negative: the number of the signal that ended the process."""
    exit_message: str | None = None
    """Facts about the end beyond the exit code, in words."""
    is_interruption: bool = False
    """Whether the machine or the provider ended it, and not the run itself."""
    is_gang_lost: bool = False
    """Whether a node of its gang had fallen silent, so that the others could not but fail."""
    is_flow: bool = True
    """Whether Prefect runs inside and reported how the flow ended; otherwise the exit code says."""
    is_suspended: bool = True
    """Of a paused run: whether its process has ended for that, as Prefect starts another one when
    it is resumed. Otherwise its process was to wait, and continues."""
    state_message: str | None = None
    diagnosis: Diagnosis | None = None
    """The cause of its failure, as its output or its flow's state says; None: neither does."""
    has_worked_before: bool = False
    """Whether an earlier attempt of the run got past the point at which this one failed."""
    refusal: str | None = None
    """The reason why its infrastructure can never be made, with the remedy; None: it was made."""
    drain_reason: EndReason | None = None
    """The reason why the attempt was asked to stop; None: it was not."""
    drain_message: str | None = None
    excuse: str | None = None
    """The outage of the platform that ended it, as the worker observed; None: none did."""
    excused_before: int = 0
    """How many attempts in a row before this one were excused."""
    begun_excused_before: int = 0
    """How many of those had started their flow, 0 to `excused_before`."""
    has_begun: bool = True
    """Whether Prefect counted the attempt as a run."""
    has_queue: bool = True
    """Whether Prefect has the run in a work queue: with a pool or a queue it deletes the place of
    each run in it, and no worker can be asked to start the run again."""
    failures_before: int = 0
    """Failures charged to the run by earlier attempts."""
    interruptions_before: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """The consequences of an attempt's end."""

    end_reason: EndReason | None
    """The reason of the end; None: the attempt never started, and it is withdrawn."""
    is_charged_failure: bool
    next_state: NextState | None
    """The state to propose to Prefect; None: leave the run as it is."""
    message: str
    """One sentence for the run's page."""
    is_excused: bool = False
    """Whether an outage of the platform ended it."""


def settle(facts: EndFacts, *, max_failures: int, max_interruptions: int | None) -> Settlement:
    """The settlement of an attempt that has ended: the run's next state, and whether it is charged.

    Only failures of the run itself are charged to it: a preemption or an interruption never is.

    Args:
        facts: What is known about the end.
        max_failures: The charged failure with this number is the last, 1 or more.
        max_interruptions: The interruption with this number is the last; None: no bound.

    Raises:
        InvalidInput: The state type is none of Prefect's.
    """
    settlement = _settlement(facts, max_failures, max_interruptions)
    if settlement.next_state in _WAITING and not facts.has_queue:
        return _without_queue(settlement)
    return settlement


def _settlement(facts: EndFacts, max_failures: int, max_interruptions: int | None) -> Settlement:
    reason = _end_reason(facts)
    if _is_excusable(facts, reason):
        return _excused(facts, reason, max_failures)
    match reason:
        case None:
            return _withdrawn(facts)
        case EndReason.COMPLETED:
            return _completed(facts)
        case EndReason.SUSPENDED:
            return _leave(EndReason.SUSPENDED, "Suspended until the run is resumed by a user.")
        case EndReason.CANCELLED:
            return _cancelled(facts)
        case EndReason.PREEMPTED:
            why = facts.drain_message or "the GPUs were assigned to a run with a higher priority"
            return _again(EndReason.PREEMPTED, f"Preempted: {_clause(why)}{_REQUEUED}")
        case EndReason.TIMED_OUT:
            why = facts.drain_message or "the maximum duration was exceeded"
            return _stopped(EndReason.TIMED_OUT, f"Timed out: {_clause(why)}.")
        case EndReason.BUDGET_SPENT:
            why = facts.drain_message or "the run's budget was exhausted"
            return _stopped(EndReason.BUDGET_SPENT, f"Budget spent: {_clause(why)}.")
        case EndReason.BUDGET_HELD:
            why = facts.drain_message or "a budget was exhausted"
            return _again(EndReason.BUDGET_HELD, f"Stopped by a budget: {_clause(why)}{_REQUEUED}")
        case EndReason.IDLE:
            why = facts.drain_message or "the run did not use its GPUs"
            return _stopped(EndReason.IDLE, f"Stopped because the run was idle: {_clause(why)}.")
        case EndReason.HUNG:
            why = facts.drain_message or "the run did not make progress"
            return _charged(facts, EndReason.HUNG, f"the run hung: {_clause(why)}", max_failures)
        case EndReason.REFUSED:
            return _refused(facts)
        case EndReason.POSTPONED:
            return _postponed(facts)
        case EndReason.INTERRUPTED:
            return _interrupted(facts, max_interruptions)
        case EndReason.FAILED if not facts.is_flow:
            return _charged(facts, EndReason.FAILED, _crash(facts), max_failures)
        case EndReason.FAILED:
            what = facts.diagnosis.message if facts.diagnosis else facts.state_message
            what = what or "the flow failed"
            return _charged(facts, EndReason.FAILED, what, max_failures)
        case EndReason.CRASHED:
            return _charged(facts, EndReason.CRASHED, _crash(facts), max_failures)


def _end_reason(facts: EndFacts) -> EndReason | None:
    """The reason why the attempt ended; None: it never started."""
    drain = facts.drain_reason
    if drain is not None and not drain.is_requested:
        drain = None
    if drain is EndReason.POSTPONED and _has_begun(facts):
        # The cluster took it after all, before it was taken back.
        drain = EndReason.INTERRUPTED
        if _own_end(facts) is EndReason.COMPLETED:
            drain = None
    match facts.prefect_state_type:
        case "COMPLETED":
            return EndReason.COMPLETED
        case "CANCELLED" | "CANCELLING":
            return EndReason.CANCELLED
        case "PAUSED" if facts.is_suspended:
            return EndReason.CANCELLED if drain is EndReason.CANCELLED else EndReason.SUSPENDED
        case None:
            return EndReason.CANCELLED if facts.was_started else None
        case _ if facts.refusal is not None:
            return EndReason.REFUSED
        case "SCHEDULED" | "PENDING" if not facts.was_started:
            return drain if drain in _WITHOUT_START else None
        case "FAILED":
            return drain or (EndReason.INTERRUPTED if facts.is_gang_lost else EndReason.FAILED)
        case "CRASHED":
            is_of_others = facts.is_interruption or facts.is_gang_lost
            return drain or (EndReason.INTERRUPTED if is_of_others else EndReason.CRASHED)
        case "SCHEDULED":
            # Prefect itself put it back, as it does when a signal from outside ends its process.
            # A container knows nothing of it: one that did its work is not run again.
            is_done = not facts.is_flow and _own_end(facts) is EndReason.COMPLETED
            return drain or (EndReason.COMPLETED if is_done else EndReason.INTERRUPTED)
        case "RUNNING" | "PENDING" | "PAUSED":
            return drain or _own_end(facts) or EndReason.INTERRUPTED
        case unknown:
            raise InvalidInput(
                "prefect_state_type",
                "is not a state type of Prefect",
                got=unknown,
                allowed=listed(PREFECT_STATE_TYPES),
                nearest=nearest_name(unknown, PREFECT_STATE_TYPES),
            )


def _has_begun(facts: EndFacts) -> bool:
    """Did anything of an attempt run that was to be postponed?"""
    if facts.exit_is_known or facts.prefect_state_type not in ("SCHEDULED", "PENDING"):
        return True
    # Prefect requeues a flow that got SIGTERM.
    return facts.prefect_state_type == "SCHEDULED" and facts.was_started


def _own_end(facts: EndFacts) -> EndReason | None:
    """The end of a run that Prefect still reports as running; None: unknown, or others ended it."""
    if not facts.exit_is_known or facts.is_interruption or facts.is_gang_lost:
        return None
    if facts.is_flow:
        return EndReason.CRASHED
    return EndReason.COMPLETED if facts.exit_code == 0 else EndReason.FAILED


def _completed(facts: EndFacts) -> Settlement:
    return Settlement(
        end_reason=EndReason.COMPLETED,
        is_charged_failure=False,
        next_state=None if facts.prefect_state_type == "COMPLETED" else "Completed",
        message="Completed.",
    )


def _withdrawn(facts: EndFacts) -> Settlement:
    return Settlement(
        end_reason=None,
        is_charged_failure=False,
        next_state="Scheduled" if facts.prefect_state_type == "PENDING" else None,
        message="The attempt did not start and its GPUs were released.",
    )


def _cancelled(facts: EndFacts) -> Settlement:
    is_over = facts.prefect_state_type in ("CANCELLED", None)
    deleted = "the run was deleted" if facts.prefect_state_type is None else None
    why = facts.drain_message or deleted
    return Settlement(
        end_reason=EndReason.CANCELLED,
        is_charged_failure=False,
        next_state=None if is_over else "Cancelled",
        message=f"Cancelled: {_clause(why)}." if why else "Cancelled.",
    )


def _refused(facts: EndFacts) -> Settlement:
    """Trying again would not help; Prefect's word for what cannot be started is Crashed."""
    return Settlement(
        end_reason=EndReason.REFUSED,
        is_charged_failure=False,
        next_state="Crashed",
        message=f"Unable to start the run. {ended(_clause(facts.refusal or ''))}",
    )


def _postponed(facts: EndFacts) -> Settlement:
    """Nothing ran, so Prefect need not grant another attempt."""
    return Settlement(
        end_reason=EndReason.POSTPONED,
        is_charged_failure=False,
        next_state="Scheduled" if facts.prefect_state_type == "PENDING" else None,
        message=f"Postponed: {ended(_clause(facts.drain_message or ''))}",
    )


def _without_queue(settlement: Settlement) -> Settlement:
    """It would wait for ever: end it, and say what helps."""
    why = settlement.message
    for outcome in (_REQUEUED, _RETRYING, _WAITING_FOR_USER):
        why = why.partition(outcome)[0]
    return replace(
        settlement,
        next_state="Crashed",
        message=f"{why.rstrip('.')}. The run cannot be retried because its work queue was "
        "deleted. Please submit the run again.",
    )


def _is_excusable(facts: EndFacts, reason: EndReason | None) -> bool:
    if facts.excuse is None or facts.drain_reason is not None:
        return False
    if facts.is_interruption or facts.is_gang_lost:
        return False
    if reason is None:
        return facts.prefect_state_type == "PENDING"
    return reason.is_excusable


def _excused(facts: EndFacts, reason: EndReason | None, max_failures: int) -> Settlement:
    """Not charged, unless flows that started end so again and again."""
    why = _clause(facts.excuse or "")
    if facts.was_started and facts.has_begun:
        number = facts.begun_excused_before + 1
        if number > MAX_EXCUSED:
            charged = EndReason.FAILED if reason is EndReason.FAILED else EndReason.CRASHED
            return _charged(facts, charged, f"{why}, {number} times in a row", max_failures)
        return _excused_as(facts, EndReason.INTERRUPTED, _trying_again(why, number))
    number = facts.excused_before + 1
    text = _trying_again(why, number)
    if number > MAX_EXCUSED:
        text = f"{why}, {number} times in a row{_WAITING_FOR_USER}"
    return _excused_as(facts, EndReason.POSTPONED, text)


def _trying_again(why: str, number: int) -> str:
    return f"{why}{_RETRYING} (excused {number} of {MAX_EXCUSED})"


def _excused_as(facts: EndFacts, end: EndReason, text: str) -> Settlement:
    return Settlement(
        end_reason=end,
        is_charged_failure=False,
        next_state="Scheduled" if facts.prefect_state_type == "PENDING" else "AwaitingRetry",
        message=f"{end}: {text}.",
        is_excused=True,
    )


def _interrupted(facts: EndFacts, max_interruptions: int | None) -> Settlement:
    count = facts.interruptions_before + 1
    is_of_others = facts.is_interruption or facts.is_gang_lost
    why = facts.drain_message or (facts.exit_message if is_of_others else None)
    why = why or (
        "the process was stopped by an external signal"
        if facts.prefect_state_type == "SCHEDULED"
        else "the machine or the worker was unavailable when the process exited"
    )
    if max_interruptions is None or count < max_interruptions:
        return _again(EndReason.INTERRUPTED, f"Interrupted: {_clause(why)}{_RETRYING}")
    return Settlement(
        end_reason=EndReason.INTERRUPTED,
        is_charged_failure=False,
        next_state="Crashed",
        message=f"Interruption {count} of {max_interruptions}: {_clause(why)}{_NOT_RETRIED}.",
    )


def _charged(facts: EndFacts, reason: EndReason, what: str, max_failures: int) -> Settlement:
    number = facts.failures_before + 1
    is_permanent = _is_permanent(facts)
    is_last = is_permanent or number >= max_failures
    failure = "Permanent failure" if is_permanent else f"Failure {number} of {max_failures}"
    outcome = _NOT_RETRIED if is_last else _RETRYING
    return Settlement(
        end_reason=reason,
        is_charged_failure=True,
        next_state=_final_state(facts, reason) if is_last else "AwaitingRetry",
        message=f"{failure}: {_clause(what)}{outcome}.",
    )


def _is_permanent(facts: EndFacts) -> bool:
    """Would each further attempt fail in the same way? What has worked once may work again: the
    node, or a change of the code that is under way, may be at fault."""
    if facts.diagnosis is None or facts.has_worked_before:
        return False
    return facts.diagnosis.is_permanent


def _final_state(facts: EndFacts, reason: EndReason) -> NextState | None:
    """The state after the last failure; None: Prefect has it already, and with its reason."""
    if facts.prefect_state_type == "FAILED":
        return None
    # Of a flow that did not begin Prefect knows only the exit code: the diagnosis says more.
    if facts.prefect_state_type == "CRASHED" and facts.diagnosis is None:
        return None
    return "Failed" if reason is EndReason.FAILED else "Crashed"


def _crash(facts: EndFacts) -> str:
    if facts.diagnosis is not None:
        return facts.diagnosis.message
    if facts.exit_message is not None:
        return facts.exit_message
    code = facts.exit_code
    signal_number = _signal_number(code)
    if signal_number == signal.SIGKILL:
        return "the process was killed by SIGKILL, most likely out of memory"
    if signal_number is not None:
        return f"the process was killed by {_signal_name(signal_number)}"
    if facts.prefect_state_type == "CRASHED" and facts.state_message:
        return facts.state_message
    if code == 0:
        return "the process exited with exit code 0 before the run completed"
    return (
        "the process exited unexpectedly"
        if code is None
        else f"the process exited with exit code {code}"
    )


def _signal_number(exit_code: int | None) -> int | None:
    if exit_code is None:
        return None
    if exit_code < 0:
        return -exit_code
    # A shell reports a signal in this form.
    return exit_code - 128 if 128 < exit_code < 128 + signal.NSIG else None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _stopped(reason: EndReason, message: str) -> Settlement:
    """It has ended permanently, and that is no failure of its own."""
    return Settlement(
        end_reason=reason, is_charged_failure=False, next_state="Failed", message=message
    )


def _leave(reason: EndReason, message: str) -> Settlement:
    return Settlement(end_reason=reason, is_charged_failure=False, next_state=None, message=message)


def _again(reason: EndReason, message: str) -> Settlement:
    return Settlement(
        end_reason=reason,
        is_charged_failure=False,
        next_state="AwaitingRetry",
        message=f"{message}.",
    )


def _clause(text: str) -> str:
    """The first line of a message, to stand inside a sentence."""
    return text.strip().partition("\n")[0].rstrip(".").strip() or "no message"
