"""The chain of decisions: what is changed, taken out, put in or exchanged later is found."""

import re
from collections.abc import Callable
from dataclasses import fields, replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_core.decisions.model.decision_chain import (
    Decision,
    DecisionKind,
    Head,
    Link,
    chained,
    check_chains,
)
from gpu_core.testing.builders.attempts import NOON


def make_decision(number: int = 1, **changes: object) -> Decision:
    """A run that was held, so many seconds after noon."""
    ordinary: dict[str, object] = {
        "decision_id": f"d-{number}",
        "decided_at": NOON + timedelta(seconds=number),
        "kind": DecisionKind.HELD,
        "pool": "gpus",
        "flow_run_id": "run-1",
        "reason": "WaitingForGpus",
        "message": "Waiting for 1 GPU of any type.",
        "numbers": {"position": number},
    }
    return Decision(**(ordinary | changes))


def chain(writer: str = "gpus@host-1", count: int = 4) -> list[Link]:
    """A chain of so many decisions."""
    return chained(writer, Head(), [make_decision(n) for n in range(1, count + 1)])


def problems(links: list[Link]) -> list[str | None]:
    """What is wrong with each chain."""
    return [check.problem for check in check_chains(links)]


def test_chains_of_several_writers_that_fit_together() -> None:
    one, other = chain("a", 3), chain("b", 2)
    found = check_chains([*one, *other])
    assert [(c.writer, c.records, c.problem) for c in found] == [("a", 3, None), ("b", 2, None)]
    assert found[0].head == Head(3, one[-1].hash)
    assert check_chains([]) == []


def test_a_chain_that_goes_on_later_is_one_chain() -> None:
    first = chain(count=2)
    later = chained("gpus@host-1", Head(2, first[-1].hash), [make_decision(3), make_decision(4)])
    assert [*first, *later] == chain(count=4)


@given(
    text=st.text(min_size=1, max_size=5),
    place=st.integers(0, 3),
    name=st.sampled_from([field.name for field in fields(Link)]),
)
def test_one_changed_value_is_found_and_its_record_is_named(
    text: str, place: int, name: str
) -> None:
    links = chain()
    before = getattr(links[place], name)
    changed = text if not isinstance(before, int) else before + len(text)
    if changed == before:
        return
    links[place] = replace(links[place], **{name: changed})
    found = [problem for problem in problems(links) if problem is not None]
    assert found
    # The hash of the last record is what the next one would hold.
    assert any(links[place].decision_id in p or f"record {place + 2} " in p for p in found)


@pytest.mark.parametrize(
    ("change", "want"),
    [
        pytest.param(lambda c: [c[0], c[2], c[3]], "record 3 .*records between", id="taken out"),
        pytest.param(lambda c: c[1:], "record 2 .* is the first", id="the first is gone"),
        pytest.param(lambda c: [c[0], c[2], c[1], c[3]], "record 3 ", id="exchanged"),
        pytest.param(lambda c: [c[0], c[0], *c[1:]], "record 1 ", id="twice"),
        pytest.param(
            lambda c: [*c[:2], replace(c[2], previous_hash=c[0].hash), c[3]],
            "record 3 .*does not follow record 2",
            id="put after another one",
        ),
        pytest.param(
            lambda c: [*c[:3], replace(c[3], message=c[3].message.replace("1", "2"))],
            r"record 4 \(d-4\) was changed",
            id="one byte of the last one",
        ),
    ],
)
def test_what_happened_to_a_chain(change: Callable[[list[Link]], list[Link]], want: str) -> None:
    (problem,) = problems(change(chain()))
    assert problem is not None
    assert re.match(want, problem)


def test_texts_that_a_database_would_change_are_made_fit_before() -> None:
    (link,) = chained("w", Head(), [make_decision(message="a\0b\ud800", numbers={"who": "\0"})])
    assert link.message == "a\ufffdb\ufffd\ufffd\ufffd"
    assert problems([link]) == [None]
