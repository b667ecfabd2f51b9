"""Settles an attempt that ended: decides once, records it, sets the run's state, closes it.

The order makes a crash at any line harmless. The decision is written to the ledger first; a worker
that finds it there applies the same decision again instead of judging a state that the
first half of the work has already changed.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import takewhile
from typing import Any, NamedTuple, cast

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.client.schemas.responses import SetStateStatus
from prefect.states import (
    AwaitingConcurrencySlot,
    AwaitingRetry,
    Cancelled,
    Completed,
    Crashed,
    Failed,
    Scheduled,
)

from gpu_core.adapters.prefect.flow_runs import read_flow_run
from gpu_core.adapters.prefect.states import read_states, restore_overwritten
from gpu_core.decisions.attempts.diagnosis import Diagnosis, why_container_failed, why_flow_failed
from gpu_core.decisions.attempts.excused_ends import EndSigns, Outage, excuse_of
from gpu_core.decisions.attempts.settlement import EndFacts, NextState, Settlement, settle
from gpu_core.decisions.attempts.startup_errors import why_unbegun
from gpu_core.decisions.model.attempt_exit import Exit
from gpu_core.decisions.model.attempts import Attempt, EndReason, SettlementValue
from gpu_core.worker.attempts.state import AttemptState, StartFailureKind

# A shell reports a signal as 128 and its number.
_FIRST_SIGNAL_CODE = 128

ATTEMPT_FOLLOWS = tuple(end for end in EndReason if end.is_requested and end.resumes)
"""Ends that are not the run's failure: the state between two attempts has their name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """A decided end: what it is, and when the processes were gone."""

    settlement: Settlement
    released_at: datetime
    exit_code: int | None
    is_end_estimated: bool
    retries: int | None = None
    """How many retries Prefect's policy of the run allows from now on; None: as many as before.
    Written down with the decision, so that a decision that is applied twice grants one retry."""


async def has_begun(client: PrefectClient, run: FlowRun) -> bool:
    """Was the flow Running since it was Pending last? Then Prefect counted the attempt as a run.

    Unless it still is, only Prefect's history knows: a crash does not say what came before it.
    """
    if not run.run_count:
        return False
    if run.state is not None and run.state.is_running():
        return True
    types = [state.type for state in await read_states(client, run)]
    since = max((n for n, type_ in enumerate(types) if type_ is StateType.PENDING), default=0)
    return StateType.RUNNING in types[since:]


def is_unexplained(running: AttemptState, run: FlowRun | None, exit_: Exit | None) -> bool:
    """Did the attempt fail by itself, with an exit code as the only reason?

    Args:
        running: The attempt; nothing of it lives.
        run: The flow run as Prefect has it; None when it was deleted.
        exit_: How it ended, if anything saw it.
    """
    if run is None or run.state is None or exit_ is None or running.is_stop_requested:
        return False
    if exit_.is_interruption or (not exit_.is_flow and exit_.exit_code == 0):
        return False
    return run.state.type in (StateType.PENDING, StateType.RUNNING, StateType.CRASHED)


def decide_ending(
    running: AttemptState,
    run: FlowRun | None,
    exit_: Exit | None,
    earlier: Sequence[Attempt],
    now: datetime,
    last_lines: Sequence[str] = (),
    *,
    has_begun: bool = True,
    held_gpus: bool = True,
    excuse: str | None = None,
) -> Ending:
    """How did this attempt end, and what follows?

    Args:
        running: The attempt; nothing of it lives.
        run: The flow run as Prefect has it; None when it was deleted.
        exit_: How it ended, if anything saw it.
        earlier: The run's attempts before this one.
        now: When it was found gone, in case nothing recorded it.
        last_lines: The end of the output of a flow that did not begin.
        has_begun: Whether Prefect counted the attempt as a run.
        held_gpus: Whether any of it was on a node; without, the attempt costs nothing.
        excuse: The outage that ended it, as the worker observed; None: none did.
    """
    state = run.state if run is not None else None
    decided = running.attempt.settlement
    # A completion, or a person's cancellation, that came after the decision overrides it.
    if decided is not None and not (state and ends_run(state)):
        # A judgment that was damaged in the ledger is made anew.
        with suppress(KeyError, TypeError, ValueError):
            return _remembered(decided, run, has_begun=has_begun)
    attempt, postponement = running.attempt, running.failure(StartFailureKind.POSTPONED)
    excused = [*takewhile(_is_excused, reversed(earlier))]
    settlement = settle(
        EndFacts(
            prefect_state_type=state.type.value if state is not None else None,
            is_suspended=state is None or bool(state.state_details.pause_reschedule),
            state_message=state.message if state is not None else None,
            diagnosis=_diagnosis(state, exit_, last_lines, has_begun=has_begun),
            has_worked_before=_has_worked_before(run, earlier, has_begun=has_begun),
            refusal=running.failure(StartFailureKind.REFUSED),
            drain_reason=EndReason.POSTPONED if postponement else attempt.drain_reason,
            drain_message=postponement or attempt.drain_message,
            exit_code=exit_.exit_code if exit_ is not None else None,
            exit_is_known=exit_ is not None
            and (exit_.exit_code is not None or exit_.is_own_failure),
            exit_message=exit_.message if exit_ is not None else None,
            is_interruption=exit_ is not None and exit_.is_interruption,
            is_gang_lost=exit_ is not None and exit_.is_gang_lost,
            is_flow=exit_ is None or exit_.is_flow,
            # A worker that died at the wrong moment did not note the start, but the end is known.
            was_started=attempt.started_at is not None or exit_ is not None,
            failures_before=sum(a.is_charged_failure for a in earlier),
            interruptions_before=sum(a.lost_capacity for a in earlier),
            has_begun=has_begun,
            has_queue=run is None or run.work_queue_id is not None,
            excuse=excuse,
            excused_before=len(excused),
            begun_excused_before=sum(a.end_reason is EndReason.INTERRUPTED for a in excused),
        ),
        max_failures=running.limits.max_failures,
        max_interruptions=running.limits.max_interruptions,
    )
    has_run = settlement.end_reason is None or settlement.end_reason.has_run
    if not (has_run and held_gpus):
        # It had its GPUs for nothing and for seconds: no share, budget or bill counts that.
        return Ending(
            settlement=settlement,
            released_at=attempt.admitted_at,
            exit_code=None,
            is_end_estimated=False,
        )
    ended_at = exit_.ended_at if exit_ is not None else None
    is_estimated = (
        ended_at is None and attempt.started_at is not None and not _seen_lately(attempt, now)
    )
    return Ending(
        settlement=settlement,
        released_at=_end(running, exit_, is_estimated, now),
        exit_code=exit_.exit_code if exit_ is not None else None,
        is_end_estimated=is_estimated,
        retries=_retries(settlement, run, has_begun=has_begun),
    )


def _diagnosis(
    state: State[Any] | None, exit_: Exit | None, last_lines: Sequence[str], *, has_begun: bool
) -> Diagnosis | None:
    """The cause of the attempt's failure, as far as its output or its flow's state says."""
    if exit_ is not None and not exit_.is_flow:
        return _container_diagnosis(exit_)
    if state is not None and state.type is StateType.FAILED:
        return why_flow_failed(state.message)
    if has_begun:
        return None
    found = why_unbegun(last_lines)
    if found is None and exit_ is not None and exit_.is_permanent:
        return Diagnosis(message=exit_.message or "", is_permanent=True)
    return found


def _container_diagnosis(exit_: Exit) -> Diagnosis | None:
    """A container that a signal ended may have handled the error that its output speaks of."""
    if exit_.is_permanent:
        return Diagnosis(message=exit_.message or "", is_permanent=True)
    if exit_.exit_code is None or not 0 < exit_.exit_code < _FIRST_SIGNAL_CODE:
        return None
    return why_container_failed((exit_.message or "").splitlines())


def _has_worked_before(run: FlowRun | None, earlier: Sequence[Attempt], *, has_begun: bool) -> bool:
    """Did an earlier attempt of the run get past the point at which this one failed?"""
    if not has_begun:
        return run is not None and bool(run.run_count)
    return any(attempt.checkpointed_at or attempt.first_step_at for attempt in earlier)


def _is_excused(attempt: Attempt) -> bool:
    return attempt.is_excused


def excuse_of_end(
    running: AttemptState,
    run: FlowRun | None,
    exit_: Exit | None,
    output: Sequence[str],
    outages: Sequence[Outage],
    *,
    has_begun: bool,
    is_folder_gone: bool,
) -> str | None:
    """The outage of the platform that ended the attempt, as the worker observed; None: none did.

    Args:
        running: The attempt; nothing of it lives.
        run: The flow run as Prefect has it; None when it was deleted.
        exit_: How it ended, if anything saw it.
        output: The last lines of it, oldest first.
        outages: What the worker saw.
        has_begun: Whether Prefect counted the attempt as a run.
        is_folder_gone: Whether its run folder was deleted.
    """
    excuse = running.failure(StartFailureKind.EXCUSED)
    if excuse is not None:
        return excuse
    attempt, state = running.attempt, run.state if run is not None else None
    if state is None or attempt.started_at is None or (exit_ is not None and not exit_.is_flow):
        return None
    ended_at = (exit_.ended_at if exit_ is not None else None) or running.gone_at
    if ended_at is None:
        return None
    signs = EndSigns(
        prefect_state_type=state.type.value,
        state_message=state.message,
        has_begun=has_begun,
        began_at=attempt.started_at,
        ended_at=ended_at,
        exit_code=exit_.exit_code if exit_ is not None else None,
        output=output,
        is_folder_gone=is_folder_gone,
    )
    return excuse_of(signs, outages)


def _retries(settlement: Settlement, run: FlowRun | None, *, has_begun: bool) -> int | None:
    """How many retries does the run's policy allow after this end? None: as many as before.

    Prefect counts every Running against `retries`, and the flow's engine retries by itself while
    there are retries left. An attempt that Prefect did not count must not add one: the next attempt
    would execute the flow's body once more than its flow asks for.
    """
    if run is None or not has_begun or settlement.next_state is None:
        return None
    if settlement.end_reason is None or not settlement.end_reason.has_run:
        return None
    retries = run.empirical_policy.retries
    return None if retries is None else retries + 1


def ends_run(state: State[Any]) -> bool:
    """Does this state end the run, so that no other attempt follows?"""
    return state.is_completed() or state.is_cancelled() or state.is_cancelling()


class Published(NamedTuple):
    """The result of publishing an end."""

    stands: bool
    """False: meanwhile its process or a person has ended the run, and that end was put back.
    The end has to be judged again."""
    state: State[Any] | None = None
    """The run's state from now on; None: it has to be read."""


async def publish(
    client: PrefectClient, running: AttemptState, run: FlowRun | None, settlement: Settlement
) -> Published:
    """Put the flow run into the state that follows the attempt's end."""
    if run is None:
        return Published(stands=True)
    if running.is_noted or run.infrastructure_pid is not None:
        # The process is gone: with its number still there, cancelling a waiting run would hang.
        await client.request(
            "PATCH",
            "/flow_runs/{id}",
            path_params={"id": run.id},
            json={"infrastructure_pid": None},
        )
    state = _next_state(settlement, running)
    if state is None:
        return Published(stands=True, state=run.state)
    answer = await client.set_flow_run_state(run.id, state, force=_must_force(settlement, run))
    if answer.status is not SetStateStatus.ACCEPT:
        await _finish_cancellation(client, running)
        return Published(stands=True)
    if run.state is None or answer.state is None or not state.is_scheduled():
        return Published(stands=True, state=answer.state)
    was_over = await restore_overwritten(client, run, answer.state, ends_run)
    return Published(stands=not was_over)


async def _finish_cancellation(client: PrefectClient, running: AttemptState) -> None:
    """Cancel a run whose cancellation came after its end was judged.

    From Cancelling Prefect accepts nothing but Cancelled, and no process is left to say it.
    """
    run = await read_flow_run(client, running.flow_run_id)
    if run is not None and run.state is not None and run.state.is_cancelling():
        await client.set_flow_run_state(run.id, Cancelled(message="Cancelled."))


async def allow_another_attempt(
    client: PrefectClient, run: FlowRun, *, retries: int | None
) -> None:
    """Keep our attempts from eating the flow's own retries, and the server from hiding the run.

    A run that retried in its process before is never polled again unless its retry type says
    `reschedule`. One that waited for a person when its process died waits for that person again, as
    Prefect's retries do: otherwise it would pass its approval without being approved.

    Args:
        retries: How many retries the run's policy allows from now on; None: as many as before.
    """
    before = run.empirical_policy
    update: dict[str, Any] = {"retry_type": "reschedule"}
    if retries is not None:
        update["retries"] = retries
    if before.pause_keys and await _died_waiting(client, run):
        update |= {"pause_keys": set(), "resuming": False}
    policy = before.model_copy(update=update)
    await client.update_flow_run(run.id, empirical_policy=policy)


async def _died_waiting(client: PrefectClient, run: FlowRun) -> bool:
    """Was it paused with its process waiting when that ended?"""
    newest_first = reversed(await read_states(client, run))
    # Prefect itself requeues a flow that gets SIGTERM.
    last = next((state for state in newest_first if state.type is not StateType.SCHEDULED), None)
    return last is not None and last.is_paused() and not last.state_details.pause_reschedule


def _next_state(settlement: Settlement, running: AttemptState) -> State[Any] | None:
    message = settlement.message
    match settlement.next_state:
        case None:
            return None
        case "AwaitingRetry":
            return _next_attempt(settlement)
        case "Scheduled":
            return AwaitingConcurrencySlot(
                scheduled_time=running.workload.submitted_at, message=message
            )
        case "Completed":
            return Completed(message=message)
        case "Cancelled":
            return Cancelled(message=message)
        case "Failed":
            return Failed(message=message)
        case "Crashed":
            return Crashed(message=message)


def _next_attempt(settlement: Settlement) -> State[Any]:
    """The state between two attempts: its name says why, where that was not the run's failure."""
    reason = settlement.end_reason
    if reason in ATTEMPT_FOLLOWS:
        message = settlement.message.removeprefix(f"{reason}: ")
        return Scheduled(name=reason.value, message=message)
    return AwaitingRetry(message=settlement.message)


def _must_force(settlement: Settlement, run: FlowRun) -> bool:
    """Is this one of the cases in which Prefect's rules would do something else?

    They do not reschedule a run without a deployment, they keep what was said first of a crash,
    they take any state that follows a pause for its approval, and they turn a failure into a retry
    of the flow's own, in a process that is gone: no worker would ever see the run again.
    """
    if settlement.next_state == "Failed" or (run.state is not None and run.state.is_paused()):
        return True
    if settlement.next_state == "Crashed":
        return run.state is not None and run.state.is_crashed()
    is_rescheduled = settlement.next_state in ("AwaitingRetry", "Scheduled")
    return is_rescheduled and run.deployment_id is None


def _seen_lately(attempt: Attempt, now: datetime) -> bool:
    """Was the end witnessed: is `now` at most a heartbeat after the last sign of life?"""
    last = attempt.last_seen_at or attempt.started_at
    return last is not None and (now - last).total_seconds() <= HEARTBEAT_S * 2


def _end(running: AttemptState, exit_: Exit | None, is_estimated: bool, now: datetime) -> datetime:
    attempt = running.attempt
    if exit_ is not None and exit_.ended_at is not None:
        # Kubernetes cuts moments off to the second, so that an end may seem to be before the start.
        bounds = (exit_.held_until, attempt.admitted_at, attempt.started_at)
        return max(exit_.ended_at, *(at for at in bounds if at is not None))
    if is_estimated:
        return attempt.last_seen_at or attempt.started_at or attempt.admitted_at
    return now


HEARTBEAT_S = 15
"""The interval at which the ledger records that an attempt is alive: what a crash can hide."""


def to_record(ending: Ending, now: datetime) -> dict[str, SettlementValue]:
    """The decision as the ledger keeps it.

    Args:
        now: When it is decided: after an outage, which an attempt may have ended long before.
    """
    settlement = ending.settlement
    return {
        "end_reason": settlement.end_reason,
        "is_charged_failure": settlement.is_charged_failure,
        "next_state": settlement.next_state,
        "message": settlement.message,
        "released_at": ending.released_at.isoformat(),
        "exit_code": ending.exit_code,
        "is_end_estimated": ending.is_end_estimated,
        "retries": ending.retries,
        "excused_at": now.isoformat() if settlement.is_excused else None,
    }


def _remembered(record: Mapping[str, Any], run: FlowRun | None, *, has_begun: bool) -> Ending:
    reason = record["end_reason"]
    settlement = Settlement(
        end_reason=None if reason is None else EndReason(reason),
        is_charged_failure=record["is_charged_failure"],
        next_state=cast("NextState | None", record["next_state"]),
        message=record["message"],
        is_excused=record.get("excused_at") is not None,
    )
    # Records of the version before this key grant the retry when they are applied.
    is_known = "retries" in record
    return Ending(
        settlement=settlement,
        retries=record["retries"] if is_known else _retries(settlement, run, has_begun=has_begun),
        released_at=datetime.fromisoformat(record["released_at"]),
        exit_code=record["exit_code"],
        is_end_estimated=record["is_end_estimated"],
    )
