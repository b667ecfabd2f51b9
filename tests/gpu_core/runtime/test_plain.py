"""The pickle-free form restores every state that it takes exactly, and runs no code."""

import math
import pickle
import struct
from collections import OrderedDict
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpu_core.decisions.checkpoints.manifest import PLAIN
from gpu_core.decisions.checkpoints.payload import Sections
from gpu_core.runtime.plain import MalformedPlainState, NotPlain, read_plain, tags, write_plain
from gpu_core.runtime.snapshot import Snapshots, restored
from tests.support.examples import examples

numpy = pytest.importorskip("numpy")


def back_and_forth(state: object) -> Any:
    description, sections = write_plain(state)
    return read_plain(memoryview(description), [memoryview(bytearray(s)) for s in sections])


def same(one: Any, other: Any) -> bool:
    """Equal in type and in every bit, at every depth."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return struct.pack("<d", one) == struct.pack("<d", other)
    if isinstance(one, complex):
        return same(one.real, other.real) and same(one.imag, other.imag)
    if isinstance(one, numpy.ndarray | numpy.generic):
        return (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())
    if isinstance(one, dict):
        return same([*one.items()], [*other.items()]) and same(
            getattr(one, "__dict__", None), getattr(other, "__dict__", None)
        )
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, set | frozenset):
        return same(sorted(one, key=repr), sorted(other, key=repr))
    return bool(one == other)


DTYPES = [
    "?",
    "u1",
    "<i4",
    ">i8",
    "<f2",
    ">f4",
    "<f8",
    "<c16",
    "S3",
    "<U2",
    "M8[ns]",
    "m8[s]",
    "V5",
]
RECORDS = [[("x", "f4"), ("y", ">i8", (2,))], [("outer", [("inner", "S2")])]]


@st.composite
def arrays(draw: st.DrawFn) -> Any:
    dtype = numpy.dtype(draw(st.sampled_from(DTYPES) | st.sampled_from(RECORDS)))
    shape = tuple(draw(st.lists(st.integers(0, 4), max_size=3)))
    size = math.prod(shape) * dtype.itemsize
    raw = bytearray(draw(st.binary(min_size=size, max_size=size)))
    if dtype.kind == "U":  # code points, not any bytes
        raw = bytearray(numpy.full(shape, "ö", dtype).tobytes())
    if dtype.kind == "b":
        raw = bytearray(byte & 1 for byte in raw)
    array = numpy.ndarray(shape, dtype, raw if raw else None)
    return draw(st.sampled_from([array, array.T, array[..., ::-1] if shape else array]))


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.complex_numbers(allow_nan=True)
    | st.text(st.characters())
    | st.binary()
)
KEYS = SCALARS | st.tuples(SCALARS, SCALARS) | st.frozensets(st.integers() | st.text(), max_size=3)
NUMPY_SCALARS = arrays().filter(lambda a: a.shape == ()).map(lambda a: a[()])
STATES = st.recursive(
    SCALARS | st.binary().map(bytearray) | arrays() | NUMPY_SCALARS,
    lambda inner: (
        st.lists(inner, max_size=12)
        | st.lists(inner, max_size=4).map(tuple)
        | st.lists(st.integers() | st.floats(), min_size=8, max_size=20)
        | st.lists(st.floats(), min_size=8, max_size=20).map(tuple)
        | st.dictionaries(KEYS, inner, max_size=4)
        | st.dictionaries(KEYS, inner, max_size=3).map(OrderedDict)
        | st.sets(KEYS, max_size=4)
    ),
    max_leaves=20,
)


@given(STATES)
@settings(max_examples=examples(300), deadline=None)
@example([1] * 8)
@example([-(2**63)] * 8)
@example([2**63] * 8)
@example((1.5,) * 8)
@example([True] * 8)
@example([-0.0, math.inf, -math.inf, math.nan, 5e-324])
@example("\ud800\udc00")
@example({1: "int", "1": "str", b"1": "bytes", (1,): "tuple", None: 0})
def test_every_plain_state_comes_back_exactly(state: object) -> None:
    """Values, types, order, signs of zero and bits of NaN are those that were written."""
    assert same(back_and_forth(state), state)


def test_bits_of_nan_come_back() -> None:
    """Also in packed numbers."""
    (odd,) = struct.unpack("<d", b"\x01\x02\x03\x00\x00\x00\xf8\xff")
    for state in (odd, [odd] * 10, numpy.array([odd])):
        assert same(back_and_forth(state), state)


def test_one_object_in_two_places_comes_back_as_one() -> None:
    """Optimizers share lists and arrays; containers may even contain themselves."""
    shared, array = [1, 2], numpy.arange(5.0)
    loop: dict[str, Any] = {"list": shared, "pair": (shared, array), "array": array}
    loop["self"] = loop
    back = back_and_forth([loop, loop])
    assert back[0] is back[1] is back[0]["self"]
    assert back[0]["list"] is back[0]["pair"][0]
    assert back[0]["array"] is back[0]["pair"][1]


def test_shared_tuples_are_written_once() -> None:
    """Or 60 levels of pairs of one tuple would be written 2**60 times."""
    state: tuple[Any, ...] = (1,)
    for _ in range(60):
        state = (state, state)
    assert len(write_plain(state)[0]) < 2000
    back = back_and_forth(state)
    for _ in range(60):
        assert back[0] is back[1]
        back = back[0]
    assert back == (1,)


def test_an_ordered_dictionary_keeps_its_attributes() -> None:
    """As torch's `state_dict()` keeps the versions of its modules."""
    state = OrderedDict(weight=numpy.ones(3))
    state._metadata = OrderedDict({"": {"version": 2}})
    back = back_and_forth(state)
    assert back._metadata == state._metadata
    assert same(back, state)


def test_arrays_can_be_changed_when_they_are_back() -> None:
    """Small or large: a training goes on with them."""
    back = back_and_forth([numpy.arange(3), numpy.arange(9000)])
    for array in back:
        array += 1
    assert back[0].tolist() == [1, 2, 3]


class Point(NamedTuple):
    x: int


class Level(IntEnum):
    LOW = 1


class Text(str):
    """A subclass may hold more than its text."""


ITSELF: Any = ([],)
ITSELF[0].append(ITSELF)
DEEP: Any = []
for _ in range(150):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("state", "want_error"),
    [
        pytest.param(
            {"a": [1, object()]},
            r"state\['a'\]\[1\] is of the type builtins.object",
            id="an object",
        ),
        pytest.param(
            {1: {b"k": Point(1)}}, r"state\[1\]\[\.\.\.\] is of .*Point", id="a named tuple"
        ),
        pytest.param([Level.LOW], r"state\[0\] is of the type .*Level", id="an enumeration"),
        pytest.param({Text("a"): 1}, "is of the type .*Text", id="a subclass as a key"),
        pytest.param(print, "builtin_function", id="a function"),
        pytest.param(numpy.array([None]), "items of the type object", id="an array of objects"),
        pytest.param(numpy.ma.masked_array([1]), "MaskedArray", id="a subclass of arrays"),
        pytest.param(
            numpy.zeros(1, numpy.dtype("f4", metadata={"a": 1})),
            "items of",
            id="a type with metadata",
        ),
        pytest.param(
            numpy.rec.array([(1,)], dtype=[("x", "i4")])[0], "numpy.*record", id="a record"
        ),
        pytest.param(numpy.dtype("f4"), "numpy.*Float32", id="a type"),
        pytest.param(ITSELF, "a tuple that contains itself", id="a tuple in itself"),
        pytest.param(DEEP, "over 100 levels deep", id="deep"),
    ],
)
def test_what_is_not_plain_is_said(state: object, want_error: str) -> None:
    """With the place and the type, and nothing is written in its stead."""
    with pytest.raises(NotPlain, match=want_error):
        write_plain(state)


@given(STATES, st.data())
@settings(max_examples=examples(300), deadline=None)
def test_changed_bytes_give_a_state_or_an_error(state: object, data: st.DataObject) -> None:
    """Never another exception, and never an object of another type."""
    description, sections = write_plain(state)
    for _ in range(data.draw(st.integers(1, 4))):
        description[data.draw(st.integers(0, len(description) - 1))] = data.draw(
            st.integers(0, 255)
        )
    cut = data.draw(st.integers(0, len(description)) | st.just(len(description)))
    views = [memoryview(bytearray(section)) for section in sections]
    try:
        back = read_plain(memoryview(description)[:cut], views)
    except MalformedPlainState:
        return
    assert type(back) in ALLOWED or isinstance(back, numpy.generic)


ALLOWED = {
    *(type(None), bool, int, float, complex, str, bytes, bytearray, list, tuple, set, frozenset),
    *(dict, OrderedDict, numpy.ndarray),
}


class Attack:
    """Pickled, it writes a file when it is read."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.write_text, (self._path, "attacked")


def test_a_pickle_in_the_place_of_a_plain_state_is_not_read(tmp_path: Path) -> None:
    """Whatever the manifest says the payload is: only the reader for plain data touches it."""
    target = tmp_path / "attacked"
    pickled = pickle.dumps(Attack(target))
    head = Sections([len(pickled)])
    wrapped = head.header.ljust(head.offsets[0], b"\0") + pickled
    for payload in (pickled, wrapped):
        with pytest.raises(ValueError, match=r"."):
            restored(PLAIN, payload)
    assert not target.exists()
    pickle.loads(pickled)  # noqa: S301 - the control: the payload is an attack
    assert target.exists()


@pytest.mark.parametrize(
    ("described", "shape"),
    [
        pytest.param("|O", (1,), id="objects"),
        pytest.param("no type", (1,), id="no type"),
        pytest.param([("a", "|O")], (1,), id="fields of objects"),
        pytest.param("<f8", (2,), id="too few bytes"),
        pytest.param("<f8", (0, 2**80), id="a length that no array has"),
        pytest.param("<f8", (1,) * 70, id="too many dimensions"),
        pytest.param(None, (1,), id="nothing"),
    ],
)
def test_an_array_of_an_attacker_is_refused(described: object, shape: tuple[int, ...]) -> None:
    """Objects are pointers: bytes must never become one."""
    head, _ = write_plain((described, False, *shape))
    description = b"a" + bytes(head) + b"-" + struct.pack("<Q", 8) + b"\0" * 8
    with pytest.raises(MalformedPlainState):
        read_plain(memoryview(description), [])


def test_a_snapshot_of_plain_data_needs_no_pickle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither when it is taken nor when it is restored."""
    monkeypatch.setattr(pickle, "loads", None)
    monkeypatch.setattr("gpu_core.runtime.snapshot._pickled", None)
    state = {"step": 7, "weights": numpy.arange(10_000.0)}
    payload_format, payload = Snapshots().take(state)
    assert same(restored(payload_format, bytes(payload.content)), state)


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(("float32", False, 10**13), id="terabytes without a byte"),
        pytest.param(("float32", False, 1), id="a number without bytes"),
        pytest.param(("float32", False), id="a single number without bytes"),
        pytest.param(("float32", False, *[1] * 65, 0), id="66 dimensions"),
        pytest.param(("load", False, 0), id="a function of torch"),
        pytest.param(("qint8", False, 0), id="a type that is not saved"),
        pytest.param(("__class__", False, 0), id="no type"),
        pytest.param((b"float32", False, 0), id="no text"),
        pytest.param(([], False, 0), id="no key"),
    ],
)
def test_a_tensor_that_its_bytes_do_not_fill_is_refused(head):
    """Before torch is imported, and before any memory is taken."""
    described, _ = write_plain(head)
    no_bytes = tags.INLINE + bytes(8)
    with pytest.raises(MalformedPlainState):
        read_plain(memoryview(tags.TENSOR + bytes(described) + no_bytes), [])
