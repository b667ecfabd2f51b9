"""The ledger's tables. A change here comes with a migration; a test compares the two."""

from dataclasses import asdict
from datetime import UTC, datetime
from enum import StrEnum
from fractions import Fraction
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Dialect

from gpu_core.decisions.costs.capacity.capacity_intervals import IntervalEnd
from gpu_core.decisions.costs.mlflow.unlogged_cost import CostChange
from gpu_core.decisions.model.attempt_exit import Exit
from gpu_core.decisions.model.attempts import EndReason, Provenance
from gpu_core.decisions.model.clean_text import clean_text
from gpu_core.decisions.model.cluster import NodeShare
from gpu_core.decisions.model.gpu_summary import GpuSummary
from gpu_core.decisions.model.host_summary import HostSummary
from gpu_core.decisions.model.prices import PriceChange, Rates
from gpu_core.decisions.model.units import require_aware


class UtcTimestamp(sa.types.TypeDecorator[datetime]):
    """An aware UTC moment, in and out, also where the database keeps no zone (SQLite)."""

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, _dialect: Dialect) -> datetime | None:
        return None if value is None else require_aware(value, "timestamp")

    def process_result_value(self, value: datetime | None, _dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            return value.replace(tzinfo=UTC)
        return value.astimezone(UTC)


class CleanText(sa.types.TypeDecorator[str]):
    """Text that every database takes (`clean_text`).

    Messages of flows and names of Prefect's objects come as they are: no run's text keeps its
    attempt from being closed.
    """

    impl = sa.String
    cache_ok = True

    def process_bind_param(self, value: str | None, _dialect: Dialect) -> str | None:
        return None if value is None else clean_text(value)


class EnumText(sa.types.TypeDecorator[StrEnum]):
    """A member of an enumeration, kept as its text, so that a new member needs no migration."""

    impl = sa.String
    cache_ok = True

    def __init__(self, members: type[StrEnum]) -> None:
        super().__init__()
        self.members = members

    def process_bind_param(self, value: StrEnum | None, _dialect: Dialect) -> str | None:
        return None if value is None else self.members(value).value

    def process_result_value(self, value: str | None, _dialect: Dialect) -> StrEnum | None:
        return None if value is None else self.members(value)


class TextTuple(sa.types.TypeDecorator[tuple[str, ...]]):
    """A few short texts in their order, kept as a JSON list."""

    impl = sa.JSON
    cache_ok = True

    def process_bind_param(self, value: tuple[str, ...] | None, _dialect: Dialect) -> Any:
        return None if value is None else list(value)

    def process_result_value(self, value: Any, _dialect: Dialect) -> tuple[str, ...] | None:
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
            raise TypeError("it is not a list of texts")
        return tuple(value)


class NodeShares(sa.types.TypeDecorator[tuple[NodeShare, ...]]):
    """The resources of an attempt on each of its nodes, stored as a JSON list of objects."""

    impl = sa.JSON(none_as_null=True)
    cache_ok = True

    def process_bind_param(self, value: Any, _dialect: Dialect) -> Any:
        # A record that was turned into plain values brings objects that are plain already.
        if value is None:
            return None
        return [share if isinstance(share, dict) else asdict(share) for share in value]

    def process_result_value(self, value: Any, _dialect: Dialect) -> tuple[NodeShare, ...] | None:
        if value is None:
            return None
        return tuple(
            NodeShare(
                node=share["node"],
                gpu_ids=tuple(share["gpu_ids"]),
                share_milli=share["share_milli"],
                mig_starts=tuple(share["mig_starts"]),
                exact_part=_pair(share.get("exact_part")),
            )
            for share in value
        )


def _pair(value: Any) -> tuple[int, int] | None:
    if value is None:
        return None
    numerator, denominator = value
    return int(numerator), int(denominator)


class FractionText(sa.types.TypeDecorator[Fraction]):
    """An exact fraction, kept as its text: `1/7`, `4`."""

    impl = sa.String
    cache_ok = True

    def process_bind_param(self, value: Fraction | None, _dialect: Dialect) -> str | None:
        return None if value is None else str(value)

    def process_result_value(self, value: str | None, _dialect: Dialect) -> Fraction | None:
        return None if value is None else Fraction(value)


class PriceChanges(sa.types.TypeDecorator[tuple[PriceChange, ...]]):
    """Prices that changed during an attempt, kept as a JSON list of objects."""

    impl = sa.JSON(none_as_null=True)
    cache_ok = True

    def process_bind_param(self, value: Any, _dialect: Dialect) -> Any:
        if value is None:
            return None
        rows = [change if isinstance(change, dict) else asdict(change) for change in value]
        return [
            {"since": _text(row["since"]), **row["rates"], "as_of": _text(row["rates"]["as_of"])}
            for row in rows
        ]

    def process_result_value(self, value: Any, _dialect: Dialect) -> tuple[PriceChange, ...] | None:
        if value is None:
            return None
        return tuple(
            PriceChange(
                since=datetime.fromisoformat(row["since"]),
                rates=Rates(
                    gpu_micro_usd_per_hour=row["gpu_micro_usd_per_hour"],
                    cpu_micro_usd_per_hour=row["cpu_micro_usd_per_hour"],
                    gib_micro_usd_per_hour=row["gib_micro_usd_per_hour"],
                    source=row["source"],
                    as_of=None if row["as_of"] is None else datetime.fromisoformat(row["as_of"]),
                ),
            )
            for row in value
        )


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else require_aware(moment, "later_prices").isoformat()


class GpuSummaries(sa.types.TypeDecorator[tuple[GpuSummary, ...]]):
    """The activity of an attempt's GPUs, stored as a JSON list of objects without nulls."""

    impl = sa.JSON(none_as_null=True)
    cache_ok = True

    def process_bind_param(self, value: Any, _dialect: Dialect) -> Any:
        if value is None:
            return None
        rows = [summary if isinstance(summary, dict) else asdict(summary) for summary in value]
        return [{k: v for k, v in row.items() if v is not None} for row in rows]

    def process_result_value(self, value: Any, _dialect: Dialect) -> tuple[GpuSummary, ...] | None:
        return None if value is None else tuple(GpuSummary(**row) for row in value)


class HostSummaryJson(sa.types.TypeDecorator[HostSummary]):
    """The resource use of an attempt, stored as a JSON object without unknown values."""

    impl = sa.JSON(none_as_null=True)
    cache_ok = True

    def process_bind_param(self, value: Any, _dialect: Dialect) -> Any:
        if value is None:
            return None
        row = value if isinstance(value, dict) else asdict(value)
        return {k: v for k, v in row.items() if v is not None}

    def process_result_value(self, value: Any, _dialect: Dialect) -> HostSummary | None:
        return None if value is None else HostSummary(**value)


_EXIT_MOMENTS = frozenset({"started_at", "ended_at", "held_until"})


class ExitJson(sa.types.TypeDecorator[Exit]):
    """The observed end of an attempt, stored as a JSON object without unknown values."""

    impl = sa.JSON(none_as_null=True)
    cache_ok = True

    def process_bind_param(self, value: Any, _dialect: Dialect) -> Any:
        if value is None:
            return None
        row = value if isinstance(value, dict) else asdict(value)
        return {
            k: require_aware(v, k).isoformat() if isinstance(v, datetime) else v
            for k, v in row.items()
            if v is not None
        }

    def process_result_value(self, value: Any, _dialect: Dialect) -> Exit | None:
        if value is None:
            return None
        moments = {k: datetime.fromisoformat(v) for k, v in value.items() if k in _EXIT_MOMENTS}
        return Exit(**value | moments)


metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

runs = sa.Table(
    "runs",
    metadata,
    sa.Column("flow_run_id", sa.String, primary_key=True),
    sa.Column("name", CleanText, nullable=False),
    sa.Column("flow_name", CleanText, nullable=False),
    sa.Column("deployment", CleanText),
    sa.Column("pool", sa.String, nullable=False),
    sa.Column("queue", CleanText),
    sa.Column("team", CleanText),
    sa.Column("user", CleanText),
    sa.Column("project", CleanText),
    sa.Column("experiment", CleanText),
    sa.Column("model", CleanText),
    sa.Column("workload_type", CleanText),
    sa.Column("priority", sa.BigInteger, nullable=False),
    sa.Column("submitted_at", UtcTimestamp, nullable=False),
    sa.Column("provenance", EnumText(Provenance), nullable=False),
    sa.Column("final_state", CleanText),
    sa.Column("parent_flow_run_id", sa.String),
    sa.Index("ix_runs_parent_flow_run_id", "parent_flow_run_id"),
)

attempts = sa.Table(
    "attempts",
    metadata,
    sa.Column("attempt_id", sa.String, primary_key=True),
    sa.Column("flow_run_id", sa.String, sa.ForeignKey(runs.c.flow_run_id), nullable=False),
    sa.Column("number", sa.Integer, nullable=False),
    sa.Column("pool", sa.String, nullable=False),
    sa.Column("host", sa.String, nullable=False),
    sa.Column("node", CleanText, nullable=False),
    sa.Column("gpu_type", sa.String),
    sa.Column("gpu_ids", TextTuple, nullable=False),
    sa.Column("capacity_type", sa.String, nullable=False),
    sa.Column("price_micro_usd_per_gpu_hour", sa.BigInteger),
    sa.Column("admitted_at", UtcTimestamp, nullable=False),
    sa.Column("started_at", UtcTimestamp),
    sa.Column("released_at", UtcTimestamp),
    sa.Column("last_seen_at", UtcTimestamp),
    sa.Column("pid", sa.BigInteger),
    sa.Column("pid_created_at", sa.Double),
    sa.Column("drain_requested_at", UtcTimestamp),
    sa.Column("drain_reason", EnumText(EndReason)),
    sa.Column("drain_deadline_at", UtcTimestamp),
    sa.Column("drain_message", CleanText),
    sa.Column("preempted_by", sa.String),
    sa.Column("end_reason", EnumText(EndReason)),
    sa.Column("end_message", CleanText),
    sa.Column("exit_code", sa.Integer),
    sa.Column("is_charged_failure", sa.Boolean, nullable=False),
    sa.Column("is_end_estimated", sa.Boolean, nullable=False),
    sa.Column("restored_from", CleanText),
    sa.Column("checkpoint", CleanText),
    sa.Column("checkpointed_at", UtcTimestamp),
    sa.Column("shares", NodeShares),
    sa.Column("infrastructure", CleanText),
    sa.Column("zone", CleanText),
    sa.Column("settlement", sa.JSON(none_as_null=True)),
    sa.Column("first_step_at", UtcTimestamp),
    sa.Column("expected_loss_s", sa.Double),
    sa.Column("saves", sa.Integer),
    sa.Column("save_stall_s", sa.Double),
    sa.Column("job_variables", sa.JSON(none_as_null=True)),
    sa.Column("gpu_quantity", FractionText),
    sa.Column("cpu_milli", sa.BigInteger),
    sa.Column("memory_mib", sa.BigInteger),
    sa.Column("price_micro_usd_per_cpu_hour", sa.BigInteger),
    sa.Column("price_micro_usd_per_gib_hour", sa.BigInteger),
    sa.Column("price_source", CleanText),
    sa.Column("price_as_of", UtcTimestamp),
    sa.Column("later_prices", PriceChanges),
    sa.Column("gpu_summaries", GpuSummaries),
    sa.Column("host_summary", HostSummaryJson),
    sa.Column("micro_batch_divisor", sa.Integer),
    sa.Column("bound_at", UtcTimestamp),
    sa.Column("gone_at", UtcTimestamp),
    sa.Column("exit", ExitJson),
    # The fence against starting one attempt twice, by any worker.
    sa.UniqueConstraint("flow_run_id", "number"),
    sa.Index("ix_attempts_admitted_at", "admitted_at"),
    sa.Index("ix_attempts_released_at", "released_at"),
)
# The worker asks for these every cycle, and they are few among all that ever ran.
sa.Index(
    "ix_attempts_open",
    attempts.c.pool,
    attempts.c.host,
    sqlite_where=attempts.c.released_at.is_(None),
    postgresql_where=attempts.c.released_at.is_(None),
)

# When which machine was there, at which price. Sums over it and over attempts give idle capacity.
capacity_intervals = sa.Table(
    "capacity_intervals",
    metadata,
    sa.Column("interval_id", sa.String, primary_key=True),
    sa.Column("host", sa.String, nullable=False),
    sa.Column("pool", sa.String, nullable=False),
    sa.Column("node", CleanText, nullable=False),
    sa.Column("incarnation", CleanText),
    sa.Column("instance_id", CleanText),
    sa.Column("instance_type", CleanText),
    sa.Column("region", CleanText),
    sa.Column("zone", CleanText),
    sa.Column("capacity_type", sa.String, nullable=False),
    sa.Column("gpu_type", sa.String, nullable=False),
    sa.Column("gpus", sa.Integer, nullable=False),
    sa.Column("cpu_milli", sa.BigInteger),
    sa.Column("memory_mib", sa.BigInteger),
    sa.Column("micro_usd_per_hour", sa.BigInteger),
    sa.Column("price_source", CleanText),
    sa.Column("price_as_of", UtcTimestamp),
    sa.Column("since", UtcTimestamp, nullable=False),
    sa.Column("until", UtcTimestamp),
    sa.Column("seen_at", UtcTimestamp, nullable=False),
    sa.Column("end_reason", EnumText(IntervalEnd)),
    sa.Column("is_end_estimated", sa.Boolean, nullable=False),
    sa.Column("faulty_gpus", sa.Integer),
    sa.Index("ix_capacity_intervals_until", "until"),
    sa.Index("ix_capacity_intervals_host_node_since", "host", "node", "since"),
)
# One machine for each name: of two workers that see it come, one writes it down.
sa.Index(
    "uq_capacity_intervals_open",
    capacity_intervals.c.host,
    capacity_intervals.c.node,
    unique=True,
    sqlite_where=capacity_intervals.c.until.is_(None),
    postgresql_where=capacity_intervals.c.until.is_(None),
)

# Who decided what, when and why. Texts: their bytes are what the chain of hashes is made of.
decisions = sa.Table(
    "decisions",
    metadata,
    sa.Column("decision_id", sa.String, primary_key=True),
    sa.Column("writer", sa.String, nullable=False),
    sa.Column("number", sa.BigInteger, nullable=False),
    sa.Column("decided_at", sa.String, nullable=False),
    sa.Column("kind", sa.String, nullable=False),
    sa.Column("pool", sa.String, nullable=False),
    sa.Column("flow_run_id", sa.String),
    sa.Column("who", sa.String, nullable=False),
    sa.Column("reason", sa.String),
    sa.Column("message", sa.String, nullable=False),
    sa.Column("numbers", sa.String, nullable=False),
    sa.Column("previous_hash", sa.String, nullable=False),
    sa.Column("hash", sa.String, nullable=False),
    sa.UniqueConstraint("writer", "number"),
    sa.Index("ix_decisions_flow_run_id", "flow_run_id"),
)

# Where a purge cut a chain of decisions, signed: the records after it still verify.
decision_anchors = sa.Table(
    "decision_anchors",
    metadata,
    sa.Column("writer", sa.String, primary_key=True),
    sa.Column("number", sa.BigInteger, primary_key=True),
    sa.Column("hash", sa.String, nullable=False),
    sa.Column("purged_at", sa.String, nullable=False),
    sa.Column("signature", sa.String, nullable=False),
)

# The policies of records that a purge deleted: reports of past months use what was in force then.
purged_policies = sa.Table(
    "purged_policies",
    metadata,
    sa.Column("decision_id", sa.String, primary_key=True),
    sa.Column("pool", sa.String, nullable=False),
    sa.Column("decided_at", sa.String, nullable=False),
    sa.Column("numbers", sa.String, nullable=False),
)

# What refresh-catalog found: a price sheet for each provider.
catalogs = sa.Table(
    "catalogs",
    metadata,
    sa.Column("provider", sa.String, primary_key=True),
    sa.Column("sheet", sa.JSON, nullable=False),
    sa.Column("refreshed_at", UtcTimestamp, nullable=False),
)

# What providers' bills say of attempts, by machine: what they were charged, and what it is billed.
attempt_bills = sa.Table(
    "attempt_bills",
    metadata,
    sa.Column("attempt_id", sa.String, sa.ForeignKey(attempts.c.attempt_id), primary_key=True),
    sa.Column("instance", CleanText, primary_key=True),
    sa.Column("bill_start", UtcTimestamp, primary_key=True),
    sa.Column("bill_end", UtcTimestamp, nullable=False),
    sa.Column("flow_run_id", sa.String, nullable=False),
    sa.Column("charged_micro_usd", sa.BigInteger, nullable=False),
    sa.Column("billed_micro_usd", sa.BigInteger, nullable=False),
    sa.Column("reconciled_at", UtcTimestamp, nullable=False),
    sa.Index("ix_attempt_bills_flow_run_id", "flow_run_id"),
    sa.Index("ix_attempt_bills_instance_bill_start", "instance", "bill_start"),
)

# Runs whose cost is not in MLflow yet, and which worker logs it.
unlogged_costs = sa.Table(
    "unlogged_costs",
    metadata,
    sa.Column("flow_run_id", sa.String, sa.ForeignKey(runs.c.flow_run_id), primary_key=True),
    sa.Column("pool", sa.String, nullable=False),
    sa.Column("host", sa.String, nullable=False),
    sa.Column("cause", EnumText(CostChange), nullable=False),
    sa.Column("since", UtcTimestamp, nullable=False),
    sa.Column("change_id", sa.String, nullable=False),
    sa.Index("ix_unlogged_costs_pool_since", "pool", "since"),
)

# Which marks of which budgets were reported, so that each is reported once in a period.
budget_alerts = sa.Table(
    "budget_alerts",
    metadata,
    sa.Column("pool", sa.String, primary_key=True),
    sa.Column("budget", CleanText, primary_key=True),
    sa.Column("period_start", UtcTimestamp, primary_key=True),
    sa.Column("percent", sa.Integer, primary_key=True),
    sa.Column("sent_at", UtcTimestamp, nullable=False),
)

# What GPUs did minute by minute: an hour of a GPU in each row, for as long as the policy says.
gpu_hours = sa.Table(
    "gpu_hours",
    metadata,
    sa.Column("gpu_id", sa.String, primary_key=True),
    sa.Column("hour", UtcTimestamp, primary_key=True),
    sa.Column("windows", sa.LargeBinary, nullable=False),
    sa.Index("ix_gpu_hours_hour", "hour"),
)

# Which installation acts for a pool: one row for each pool of a cluster's workers.
pool_claims = sa.Table(
    "pool_claims",
    metadata,
    sa.Column("pool_id", sa.String, primary_key=True),
    sa.Column("pool", CleanText, nullable=False),
    sa.Column("cluster", sa.String, nullable=False),
    sa.Column("namespace", sa.String, nullable=False),
    sa.Column("holder", sa.String, nullable=False),
    sa.Column("claimed_at", UtcTimestamp, nullable=False),
    sa.Column("renewed_at", UtcTimestamp, nullable=False),
    sa.Column("renewals", sa.BigInteger, nullable=False),
)
