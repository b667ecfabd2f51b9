"""Billed resources and prices of attempts, as columns that the database groups by."""

import json
import logging
from fractions import Fraction
from typing import Any

import sqlalchemy as sa

from gpu_core.adapters.ledger.rows import UNREADABLE
from gpu_core.adapters.ledger.schema import attempts
from gpu_core.decisions.costs.usage.time_use import Tariff
from gpu_core.decisions.costs.usage.usage_cost import Held
from gpu_core.decisions.model.attempts import held_gpus
from gpu_core.decisions.model.cluster import NodeShare
from gpu_core.decisions.model.prices import PriceChange, Rates
from gpu_core.decisions.model.units import epoch_us

_log = logging.getLogger("prefect.gpu.ledger")
_c = attempts.c

# A version that kept a part's price counted GPUs, whatever part of them was held.
_HAS_OLD_PRICE = sa.and_(_c.price_source.is_(None), _c.price_micro_usd_per_gpu_hour.is_not(None))
_IS_OLD = sa.or_(_c.gpu_quantity.is_(None), _HAS_OLD_PRICE)

# No parameters: PostgreSQL would not see that what it groups by is what is selected.
PAID = (
    # Its text: a fraction is made once for each that differs, and not for each row.
    sa.type_coerce(_c.gpu_quantity, sa.String).label("gpus"),
    _c.cpu_milli,
    _c.memory_mib,
    _c.price_micro_usd_per_gpu_hour,
    _c.price_micro_usd_per_cpu_hour,
    _c.price_micro_usd_per_gib_hour,
    sa.case((_HAS_OLD_PRICE, sa.literal_column("1")), else_=sa.literal_column("0")).label(
        "has_old_price"
    ),
    sa.case((_IS_OLD, sa.cast(_c.gpu_ids, sa.String))).label("old_gpu_ids"),
    sa.case((_IS_OLD, sa.cast(_c.shares, sa.String))).label("old_shares"),
)
"""The columns that an attempt pays for, and its first prices. Of older records the GPUs say it."""

_PRICES = slice(3, 6)


_IS_REPRICED = _c.later_prices.is_not(None)

REPRICED = (
    sa.cast(_c.later_prices, sa.String).label("later_prices"),
    sa.case((_IS_REPRICED, _c.attempt_id)).label("repriced_id"),
)
"""The prices that changed while the attempt held its GPUs, as text, and an id: each such attempt is
a group of its own."""


class Tariffs:
    """The use and cost of attempts per microsecond. Equal amounts and prices form one tariff."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], Tariff] = {}
        self._damaged: set[str] = set()

    def of(self, paid: tuple[Any, ...]) -> Tariff:
        """The tariff of these values of `PAID`."""
        found = self._known.get(paid)
        if found is None:
            found = self._known[paid] = self._made(paid)
        return found

    def at_each_price(
        self, paid: tuple[Any, ...], later_prices: str | None
    ) -> tuple[list[int], list[Tariff]]:
        """The start of each later price, and the tariffs from the first price on.

        Args:
            paid: Values of `PAID`.
            later_prices: The column's text; None: no price changed.
        """
        changes: tuple[PriceChange, ...] = self._read(_c.later_prices, later_prices) or ()
        rates = [change.rates for change in changes]
        later = [
            (
                *paid[: _PRICES.start],
                rate.gpu_micro_usd_per_hour,
                rate.cpu_micro_usd_per_hour,
                rate.gib_micro_usd_per_hour,
                *paid[_PRICES.stop :],
            )
            for rate in rates
        ]
        return [epoch_us(c.since) for c in changes], [self.of(each) for each in (paid, *later)]

    def shares(self, text: str) -> tuple[NodeShare, ...]:
        """The shares of an attempt on each of its nodes; none if they cannot be read."""
        return self._read(_c.shares, text) or ()

    def _made(self, paid: tuple[Any, ...]) -> Tariff:
        gpus, *numbers, has_old_price, gpu_ids, shares = paid
        cpu_milli, memory_mib, gpu, cpu, gib = map(self._number, numbers)
        by_node, ids = self._read(_c.shares, shares), self._read(_c.gpu_ids, gpu_ids)
        if ids is None:
            ids = [gpu_id for share in by_node or () for gpu_id in share.gpu_ids]
        quantity = Fraction(len(ids)) if by_node is None else held_gpus(by_node)
        if gpus is not None:
            quantity = Fraction(gpus)
        return Tariff.of(
            Held(
                gpus=quantity,
                priced_gpus=Fraction(len(ids)) if has_old_price else quantity,
                cpu_milli=cpu_milli,
                memory_mib=memory_mib,
            ),
            Rates(
                gpu_micro_usd_per_hour=gpu,
                cpu_micro_usd_per_hour=cpu,
                gib_micro_usd_per_hour=gib,
                source="",
            ),
        )

    def _number(self, value: Any) -> int | None:
        """A whole number; None: it is unknown, or SQLite kept a text, which is named."""
        if value is None or isinstance(value, int):
            return value
        self._name(value, "amounts or prices")
        return None

    def _read(self, column: sa.Column[Any], text: str | None) -> Any:
        """The value of a JSON column; None: there is none, or it cannot be read, which is named."""
        if text is None:
            return None
        try:
            return column.type.process_result_value(json.loads(text), None)  # type: ignore[attr-defined]  # a decorator of ours
        except UNREADABLE:
            self._name(text, column.name)
            return None

    def _name(self, value: str, of_what: str) -> None:
        if value not in self._damaged:
            self._damaged.add(value)
            _log.error("Failed to read %s of an attempt from the ledger: %s", of_what, value)
