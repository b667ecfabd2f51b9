"""Functions of SQL that SQLite and PostgreSQL call by different names."""

from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles


class EpochUs(sa.sql.functions.GenericFunction[int]):
    """A moment in whole microseconds since 1970."""

    type = sa.BigInteger()
    inherit_cache = True
    name = "epoch_us"


@compiles(EpochUs, "sqlite")
def _epoch_us_sqlite(element: Any, compiler: Any, **kw: Any) -> str:
    # `2026-03-04 12:00:00.000000`, as SQLAlchemy keeps it.
    text = compiler.process(next(iter(element.clauses)), **kw)
    return (
        f"(CAST(strftime('%s', substr({text}, 1, 19)) AS INTEGER) * 1000000"
        f" + CAST(substr({text}, 21, 6) AS INTEGER))"
    )


@compiles(EpochUs, "postgresql")
def _epoch_us_postgresql(element: Any, compiler: Any, **kw: Any) -> str:
    moment = compiler.process(next(iter(element.clauses)), **kw)
    return f"CAST(EXTRACT(EPOCH FROM {moment}) * 1000000 AS BIGINT)"


class Greater(sa.sql.functions.GenericFunction[int]):
    """The greater of some numbers."""

    type = sa.BigInteger()
    inherit_cache = True
    name = "greater"


class Lesser(sa.sql.functions.GenericFunction[int]):
    """The lesser of some numbers."""

    type = sa.BigInteger()
    inherit_cache = True
    name = "lesser"


_SCALAR = {"greater": ("max", "greatest"), "lesser": ("min", "least")}


@compiles(Greater)
@compiles(Lesser)
def _extreme(element: Any, compiler: Any, **kw: Any) -> str:
    names = _SCALAR[element.name]
    name = names[0] if compiler.dialect.name == "sqlite" else names[1]
    return f"{name}({', '.join(compiler.process(each, **kw) for each in element.clauses)})"
