"""`prefect-gpu anomalies`: read the ledger, judge the days, print."""

import json
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from gpu_core.adapters.ledger.daily_costs import RunFilter, read_daily_costs, read_histories
from gpu_core.adapters.ledger.policy_in_force import policy_in_file, policy_in_force
from gpu_core.adapters.ledger.source import open_to_read
from gpu_core.cli.anomalies.document import anomalies_document
from gpu_core.cli.anomalies.text import anomalies_text
from gpu_core.cli.shared.exit_codes import DONE, NO
from gpu_core.decisions.costs.anomalies.detection.judgment import Judgment
from gpu_core.decisions.costs.anomalies.detection.known import Known
from gpu_core.decisions.costs.anomalies.detection.seasonal import JUDGED, judge_by_season
from gpu_core.decisions.model.errors import InvalidInput, listed, nearest_name

_MOST_DAYS = 31
_TOTAL = "total"
_KEYS = (_TOTAL, *(name.replace("_", "-") for name in JUDGED))


def run_anomalies(
    ledger_url: Callable[[], str],
    day: date | None,
    since: date | None,
    by: Sequence[str],
    *,
    pool: str | None,
    with_generated: bool,
    policy_path: Path | None,
    as_json: bool,
) -> int:
    """Print the anomalies of a day or of several. The ledger is asked for when all is understood.

    Returns:
        0: there was none; 1: there was one.

    Raises:
        InvalidInput: A day, a key, the policy or the ledger's address cannot be used.
        LedgerError: The ledger cannot be read.
    """
    now = datetime.now(UTC)
    first, last = _days(day, since, now.date())
    dimensions = _dimensions(by)
    given = policy_in_file(policy_path)
    wanted = RunFilter(now=now, pool=pool, with_generated=with_generated)
    with open_to_read(ledger_url()) as ledger:
        known = Known.by(policy_in_force(given, ledger, pool, now).policy)
        histories = read_histories(ledger, first, last, wanted)
        costs = read_daily_costs(ledger, first, last, wanted)
    found = [
        judgment
        for each, history in histories.items()
        for judgment in judge_by_season(each, history, costs, known, now)
        if _is_wanted(judgment, dimensions)
    ]
    if as_json:
        print(json.dumps(anomalies_document(first, last, found), indent=2))
    else:
        has_runs = any(slices for history in histories.values() for slices in history.days)
        print(anomalies_text(first, last, found, has_runs=has_runs, with_generated=with_generated))
    return NO if any(judgment.is_anomaly for judgment in found) else DONE


def _days(day: date | None, since: date | None, today: date) -> tuple[date, date]:
    yesterday = today - timedelta(days=1)
    if day is not None and since is not None:
        raise InvalidInput(
            "--since",
            "cannot be used with --date",
            remedy="please specify only one of these options",
        )
    first, last = since or day or yesterday, day or yesterday
    field = "--date" if since is None else "--since"
    if first > (today if since is None else yesterday):
        raise InvalidInput(
            field, "is in the future", got=first.isoformat(), allowed=f"up to {today.isoformat()}"
        )
    if (last - first).days >= _MOST_DAYS:
        earliest = last - timedelta(days=_MOST_DAYS - 1)
        raise InvalidInput(
            field,
            f"is more than {_MOST_DAYS} days ago",
            got=first.isoformat(),
            allowed=f"{earliest.isoformat()} or later",
        )
    return first, last


def _dimensions(by: Sequence[str]) -> frozenset[str]:
    """Names of `JUDGED`, and `total`; none given: all of them."""
    names = [part.strip() for text in by for part in text.split(",")]
    for name in names:
        if name.replace("_", "-") not in _KEYS:
            raise InvalidInput(
                "by",
                "is not a valid anomaly scope",
                got=name,
                allowed=listed(_KEYS),
                nearest=nearest_name(name, _KEYS),
            )
    return frozenset(name.replace("-", "_") for name in names or _KEYS)


def _is_wanted(judgment: Judgment, dimensions: frozenset[str]) -> bool:
    return (judgment.part.dimension or _TOTAL) in dimensions
