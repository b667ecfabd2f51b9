"""The ledger itself, put together from its parts; each part has one subject."""

from gpu_core.adapters.ledger.attempt_writes import AttemptWrites
from gpu_core.adapters.ledger.cost_records import CostRecords
from gpu_core.adapters.ledger.decision_records import DecisionRecords
from gpu_core.adapters.ledger.machine_records import MachineRecords
from gpu_core.adapters.ledger.run_records import RunRecords


class Ledger(AttemptWrites, RunRecords, DecisionRecords, MachineRecords, CostRecords):
    """The record of GPU usage: holder, time, price and end. Safe to use from any thread."""
