"""The log of decisions, with its purges."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from types import MappingProxyType

from gpu_core.adapters.ledger.chain_check import checked_chains
from gpu_core.adapters.ledger.database import LedgerDatabase, Logged
from gpu_core.adapters.ledger.decision_log import (
    PolicyText,
    append,
    last_policy,
    policy_text_at,
    read_links,
    runs_with,
)
from gpu_core.adapters.ledger.decision_purge import purge, purgeable
from gpu_core.decisions.model.decision_chain import (
    ChainCheck,
    DecisionKind,
    Link,
)
from gpu_core.decisions.model.units import require_aware


class DecisionRecords(LedgerDatabase):
    """Decisions, each chained to the one before."""

    def log(self, decided: Logged) -> None:
        """Add decisions to the log; those that are there are left out."""
        self._commits.write(
            lambda connection: append(connection, decided.writer, decided.decisions)
        )

    def decisions(
        self,
        *,
        flow_run_id: str | None = None,
        kind: str | None = None,
        writer: str | None = None,
    ) -> list[Link]:
        """The recorded decisions about a run, of a kind or by a writer, in order."""
        with self._reader.begin() as connection:
            return list(read_links(connection, flow_run_id, kind, writer))

    def last_policy(self, writer: str, since: datetime) -> str | None:
        """The digest of the policy that this writer noted last; None: none since then."""
        with self._reader.begin() as connection:
            return last_policy(connection, writer, require_aware(since, "since"))

    def policy_text_at(self, pool: str | None, moment: datetime) -> PolicyText | None:
        """The policy that the workers of a pool had in force then; before the first one, the first.

        Args:
            pool: The work pool; None: that of any.

        Returns:
            None: The ledger has no policy with its text.
        """
        with self._reader.begin() as connection:
            return policy_text_at(connection, pool, require_aware(moment, "moment"))

    def runs_with_decision(self, kind: DecisionKind, flow_run_ids: Iterable[str]) -> frozenset[str]:
        """The runs among these about which any writer recorded such a decision."""
        asked = list(dict.fromkeys(flow_run_ids))
        with self._reader.begin() as connection:
            return runs_with(connection, kind, asked)

    def check_decisions(
        self, anchor_key: bytes | None = None, kept: Mapping[str, str] = MappingProxyType({})
    ) -> list[ChainCheck]:
        """Was a record of the log changed or taken out? For each writer.

        Args:
            anchor_key: Checks the signatures of purges; None: they are not checked.
            kept: By writer, a hash that was its last one once.
        """
        with self._reader.begin() as connection:
            return checked_chains(connection, anchor_key, kept)

    def purgeable_decisions(self, before: datetime) -> dict[str, int]:
        """The last record of each writer up to which the log can be purged."""
        with self._reader.begin() as connection:
            return purgeable(connection, require_aware(before, "before"))

    def purge_decisions(self, cuts: Mapping[str, int], key: bytes, now: datetime) -> dict[str, int]:
        """Delete the records of each writer up to these, and leave a signed anchor.

        Returns the numbers.

        The caller has checked the chains with `check_decisions`: a purge would hide a change.
        """
        return self._commits.write(lambda connection: purge(connection, cuts, key, now))
