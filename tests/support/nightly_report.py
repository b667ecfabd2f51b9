"""The page that works the quickstart's nightly report out: its tables, its sums, and the report."""

import ast
import math
import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.page import blocks_of

PAGE = Path(__file__).parents[2] / "docs" / "nightly-report.md"

_NUMBER = r"\d+(?:,\d{3})*(?:\.\d+)?"
_SIGNS = str.maketrans({"×": "*", "÷": "/", "−": "-", ",": ""})
_OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_FUNCTIONS: dict[str, Callable[[float], float]] = {"ln": math.log, "sqrt": math.sqrt}


@dataclass(frozen=True, slots=True)
class Sum:
    """A line of a sum: `4 + 6 = 10`."""

    text: str
    result: str
    """As it stands there."""

    def value(self) -> float:
        """What does it amount to?"""
        return _value(ast.parse(self.text.translate(_SIGNS), mode="eval").body)

    def numbers(self) -> list[str]:
        """The numbers that it is made of."""
        return numbers_in(self.text)


def sums() -> Iterator[Sum]:
    """All lines of all sums, the first one first."""
    for block in blocks_of(PAGE):
        if block.rest == "sum":
            for line in block.text.splitlines():
                text, _, result = line.rpartition(" = ")
                yield Sum(text, result)


def report() -> str:
    """The report in pieces as the page shows it, put together."""
    return "\n".join(block.text for block in blocks_of(PAGE) if block.rest == "report")


def without_picture(page: str) -> str:
    """The report without the picture of its days, whose words the page shows."""
    return re.sub(r"\(data:[^)]*\)", "", page)


def tables() -> list[list[dict[str, str]]]:
    """Each table outside of the report as rows by column."""
    prose = re.sub(r"^```.*?^```$", "", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL)
    found = []
    for text in re.findall(r"(?:^\|.*\n)+", prose, re.MULTILINE):
        head, _, *rows = (
            [cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()
        )
        found.append([dict(zip(head, row, strict=True)) for row in rows])
    return found


def numbers_in(text: str) -> list[str]:
    """The numbers of a text, without those of dates and names."""
    plain = re.sub(r"\d{4}-\d\d-\d\d|\S*[a-z_]\S*\d\S*|\d+[a-z]{2}\S*", " ", text)
    return re.findall(rf"(?<![\w.]){_NUMBER}", plain)


def number(text: str) -> float:
    """What does this number of the page say?"""
    return float(text.translate(_SIGNS))


def places(text: str) -> int:
    """How many decimals does it have?"""
    return len(text.partition(".")[2])


def _value(node: ast.expr) -> float:
    match node:
        case ast.Constant(value=int() | float() as constant):
            return float(constant)
        case ast.BinOp(left, sign, right):
            return _OPERATORS[type(sign)](_value(left), _value(right))
        case ast.Call(func=ast.Name(id=name), args=[argument]):
            return _FUNCTIONS[name](_value(argument))
    raise ValueError(ast.dump(node))
