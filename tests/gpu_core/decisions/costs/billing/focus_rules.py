"""An interpreter of the FinOps Foundation's machine-readable rules of FOCUS 1.2.

It is our own reading of the 22 kinds of check that the model names. A rule holds if its requirement
holds in each row in which its condition does; rules about a column that is not in the file do not
apply, except those that ask for the column.
"""

import json
import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

Row = Mapping[str, str | None]

_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_NUMERIC = re.compile(r"-?\d+(\.\d+)?([eE][-+]?\d+)?")
_TIME = "(Year|Quarter|Month|Week|Day|Hour|Minute|Second)"
_UNIT = re.compile(rf"([0-9]+ )?[A-Z][A-Za-z]*(-{_TIME}s?|/{_TIME})?(-{_TIME}s)?")
_NATIONAL = frozenset(
    [
        "USD",
        "EUR",
        "GBP",
        "JPY",
        "CNY",
        "INR",
        "CHF",
        "CAD",
        "AUD",
        "BRL",
        "KRW",
        "SEK",
        "NOK",
        "DKK",
        "PLN",
        "MXN",
    ]
)


class FocusRules:
    """The rules of a version of FOCUS, for what a provider supports."""

    def __init__(
        self, model: Mapping[str, Any], supported: Collection[str], without: Collection[str] = ()
    ) -> None:
        self.rules: Mapping[str, Any] = model["ModelRules"]
        self.kinds = frozenset(model["CheckFunctions"])
        self._supported = frozenset(supported)
        self._without = frozenset(without)

    def broken(self, columns: Collection[str], rows: Sequence[Row]) -> list[str]:
        """Which applicable rules does a file break? MAY allows, and is never broken."""
        file = _File(self, columns, rows)
        return [name for name in self.applicable(columns) if not file.holds(name)]

    def applicable(self, columns: Collection[str]) -> list[str]:
        """Which rules can be checked of a file with these columns?"""
        return [name for name in self.rules if self.applies(name, columns)]

    def applies(self, name: str, columns: Collection[str]) -> bool:
        """Is there something to check, of a column that is there or has to be?"""
        rule = self.rules[name]
        criteria = rule["ValidationCriteria"]
        if name in self._without or not set(rule["ApplicabilityCriteria"]) <= self._supported:
            return False
        if rule["Status"] != "Active" or criteria["Keyword"] == "MAY":
            return False
        if "CheckFunction" not in criteria["Requirement"]:
            return False  # it is said in words only
        is_there = rule["EntityType"] != "Column" or rule["Reference"] in columns
        return is_there or rule["Function"] == "Presence"


class _File:
    def __init__(self, rules: FocusRules, columns: Collection[str], rows: Sequence[Row]) -> None:
        self.rules, self.columns, self.rows = rules, frozenset(columns), rows
        self._known: dict[str, bool] = {}
        self._counts: dict[tuple[str, str], dict[Any, set[Any]]] = {}

    def holds(self, name: str) -> bool:
        if name not in self._known:
            self._known[name] = True  # rules may name each other in a circle
            criteria = self.rules.rules[name]["ValidationCriteria"]
            wanted, only_if = criteria["Requirement"], criteria["Condition"]
            self._known[name] = all(
                self._check(wanted, row) for row in self.rows if self._check(only_if, row)
            )
        return self._known[name]

    def _check(self, check: Mapping[str, Any], row: Row) -> bool:
        if not check:
            return True
        kind: str = check["CheckFunction"]
        if kind not in self.rules.kinds:
            raise LookupError(f"the model names no check {kind}")
        found: bool = getattr(self, _method(kind))(check, row)
        return found

    def _and(self, check: Mapping[str, Any], row: Row) -> bool:
        return all(self._check(item, row) for item in check["Items"])

    def _or(self, check: Mapping[str, Any], row: Row) -> bool:
        return any(self._check(item, row) for item in check["Items"])

    def _check_model_rule(self, check: Mapping[str, Any], _row: Row) -> bool:
        name = check["ModelRuleId"]
        return not self.rules.applies(name, self.columns) or self.holds(name)

    def _column_present(self, check: Mapping[str, Any], _row: Row) -> bool:
        return _column(check) in self.columns

    def _check_value(self, check: Mapping[str, Any], row: Row) -> bool:
        value, wanted = row.get(_column(check)), check["Value"]
        return _number(value) == wanted if isinstance(wanted, int) else value == wanted

    def _check_not_value(self, check: Mapping[str, Any], row: Row) -> bool:
        return not self._check_value(check, row)

    def _check_same_value(self, check: Mapping[str, Any], row: Row) -> bool:
        return row.get(check["ColumnAName"]) == row.get(check["ColumnBName"])

    def _check_not_same_value(self, check: Mapping[str, Any], row: Row) -> bool:
        return not self._check_same_value(check, row)

    def _check_distinct_count(self, check: Mapping[str, Any], row: Row) -> bool:
        pair = check["ColumnAName"], check["ColumnBName"]
        if pair not in self._counts:
            seen = self._counts[pair] = defaultdict(set)
            for each in self.rows:
                seen[each.get(pair[0])].add(each.get(pair[1]))
        return len(self._counts[pair][row.get(pair[0])]) == check["ExpectedCount"]

    def _column_by_column_equals_column_value(self, check: Mapping[str, Any], row: Row) -> bool:
        names = check["ColumnAName"], check["ColumnBName"], check["ResultColumnName"]
        first, second, result = (_number(row.get(name)) for name in names)
        return None not in (first, second) and first * second == result  # type: ignore[operator]  # both are numbers

    def _check_greater_or_equal_than_value(self, check: Mapping[str, Any], row: Row) -> bool:
        value = row.get(_column(check))
        number = _number(value)
        return value is None or (number is not None and number >= check["Value"])

    def _check_decimal_value(self, check: Mapping[str, Any], row: Row) -> bool:
        return _number(row.get(_column(check))) is not None

    def _type_decimal(self, check: Mapping[str, Any], row: Row) -> bool:
        value = row.get(_column(check))
        return value is None or ("." in value and _number(value) is not None)

    def _type_string(self, check: Mapping[str, Any], row: Row) -> bool:
        value = row.get(_column(check))
        return value is None or isinstance(value, str)

    def _type_date_time(self, check: Mapping[str, Any], row: Row) -> bool:
        return self._matches(_DATE_TIME, check, row)

    _format_date_time = _type_date_time

    def _format_numeric(self, check: Mapping[str, Any], row: Row) -> bool:
        return self._matches(_NUMERIC, check, row)

    def _format_unit(self, check: Mapping[str, Any], row: Row) -> bool:
        return self._matches(_UNIT, check, row)

    def _format_currency(self, check: Mapping[str, Any], row: Row) -> bool:
        return self._matches(re.compile("[A-Z]{3}"), check, row)

    def _check_national_currency(self, check: Mapping[str, Any], row: Row) -> bool:
        return row.get(_column(check)) in _NATIONAL

    def _format_string(self, check: Mapping[str, Any], row: Row) -> bool:
        value = row.get(_column(check))
        return value is None or (
            bool(value) and str(value).strip() == value and value.isprintable()
        )

    def _format_key_value(self, check: Mapping[str, Any], row: Row) -> bool:
        value = row.get(_column(check))
        if value is None:
            return True
        try:
            document = json.loads(value)
        except ValueError:
            return False
        is_flat = isinstance(document, dict) and not any(
            isinstance(item, dict | list) for item in document.values()
        )
        return is_flat and all(document)

    @staticmethod
    def _matches(pattern: re.Pattern[str], check: Mapping[str, Any], row: Row) -> bool:
        value = row.get(_column(check))
        return value is None or pattern.fullmatch(value) is not None


def _method(kind: str) -> str:
    """`_check_value` is what reads `CheckValue`."""
    words = kind if kind.isupper() else re.sub(r"(?<!^)(?=[A-Z])", "_", kind)
    return f"_{words.lower()}"


def _column(check: Mapping[str, Any]) -> str:
    """The column that is looked at; two rules of the model name it under another key."""
    name: str = check["ColumnName"] if "ColumnName" in check else check["CheckCondition"]
    return name


def _number(value: str | None) -> Decimal | None:
    try:
        return None if value is None else Decimal(value)
    except InvalidOperation:
        return None
