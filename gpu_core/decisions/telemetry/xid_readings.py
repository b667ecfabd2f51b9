"""The XID errors that are new, by what exporters show of them, scrape by scrape.

What was counted before says nothing about now, and one scrape says nothing: an error stays in the
next scrape, too. A reading that is missing changes nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class XidCounters:
    """Our counters of one GPU, by code. Begin with `XidCounters()`.

    A counter that falls begins anew, with the exporter: its count is known from then on.
    """

    known: Mapping[int, float] | None = None
    """The counts that are sure; None: there are fewer than two readings."""
    last: Mapping[int, float] | None = None

    def with_reading(self, counts: Mapping[int, float]) -> tuple["XidCounters", tuple[int, ...]]:
        """The state after one more reading, and the codes of the new errors.

        Args:
            counts: By code; a code that is missing was not read.
        """
        if self.last is None:
            return XidCounters(last=counts), ()
        if self.known is None:
            return XidCounters(known={**self.last, **counts}, last=counts), ()
        known, new = dict(self.known), []
        for code in sorted(counts.keys() & self.last.keys()):
            before = known.get(code, 0.0)
            least, most = sorted((counts[code], self.last[code]))
            if least > before:
                known[code] = least
                new.append(code)
            elif most < before:
                known[code] = most
        return replace(self, known=known, last={**self.last, **counts}), tuple(new)


@dataclass(frozen=True, slots=True)
class LastXid:
    """DCGM's last code of one GPU. Begin with `LastXid()`.

    An error with the code of the one before it cannot be seen.
    """

    known: int | None = None
    """The code that is sure; None: there are fewer than two readings that agree."""
    last: int | None = None

    def with_reading(self, code: int | None) -> tuple["LastXid", tuple[int, ...]]:
        """The state after one more reading, and the code of the new error.

        Args:
            code: 0: there was no error; None: it was not read.
        """
        if code is None:
            return self, ()
        if code != self.last or code == self.known:
            return replace(self, last=code), ()
        is_new = self.known is not None and code != 0
        return LastXid(known=code, last=code), (code,) if is_new else ()


# Each start of an exporter may have an address of its own.
_MOST_SOURCES = 8


@dataclass(frozen=True, slots=True)
class XidReadings:
    """The readings of both kinds of exporters of one GPU."""

    counters: Mapping[str, XidCounters] = field(default_factory=dict)
    """By exporter, the one that was read last at the end: two on a node count from their own
    starts."""
    last: LastXid = field(default_factory=LastXid)

    def with_counts(
        self, source: str, counts: Mapping[int, float]
    ) -> tuple["XidReadings", tuple[int, ...]]:
        """As `XidCounters.with_reading`.

        Args:
            source: The exporter that counts.
            counts: By code.
        """
        known, new = self.counters.get(source, XidCounters()).with_reading(counts)
        others = [each for each in self.counters.items() if each[0] != source]
        kept = dict(others[1 - _MOST_SOURCES :])
        return replace(self, counters={**kept, source: known}), new

    def with_code(self, code: int | None) -> tuple["XidReadings", tuple[int, ...]]:
        """As `LastXid.with_reading`."""
        last, new = self.last.with_reading(code)
        return replace(self, last=last), new
