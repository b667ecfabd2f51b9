"""Slow tests wait for texts that the product still has: a reworded text is noticed without them."""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import pytest

from tests.layout.expected_texts import Texts, texts_of_tests
from tests.layout.product_texts import Phrases, product_texts

FOLDERS = ("cluster", "end_to_end", "flows", "gpu", "infra", "installed", "notebooks", "quickstart")
PRODUCT = (
    "gpu_core",
    "flows",
    "blocks",
    "deployments",
    "infra",
    "notebooks",
    "tests/local_cluster",
)

FROM_ELSEWHERE: Mapping[str, str] = {
    "Received SIG": "Prefect's command prints it when it gets a signal",
    "Retry from the UI": "the message of a state that Prefect's UI sets",
    "uv run prefect flow-run execute": "a command of Prefect 3.8's own base job template",
    "AcceleratedHardwareReady is False": "a condition of a node in GKE, with its value",
    "requires kubeVersion": "helm's refusal of a cluster that is too old",
    "does not match pattern": "helm's refusal of a value, by the schema of the chart",
    "the parity of whole numbers": "the workload of tests/support/inference_stub.py",
    "during the upgrade": "the name of a run in the test",
}
"""Texts that the product does not have as a whole, each with the reason."""


def slow_tests() -> Iterator[Path]:
    for folder in FOLDERS:
        yield from sorted(Path("tests", folder).rglob("*.py"))
    # Tests of the support are quick, and it is their product.
    for path in sorted(Path("tests/support").glob("*.py")):
        if not path.name.startswith("test_"):
            yield path


def stale(texts: Texts, product: Collection[str], elsewhere: Collection[str] = ()) -> list[str]:
    """The expectations with words that follow each other in no text, by place."""
    said = Phrases((*product, *elsewhere))
    written: dict[Path, Phrases] = {}
    found = []
    for each in texts.expected:
        if not any(said.unknown(each.text)):
            continue
        if each.path not in written:
            written[each.path] = Phrases(texts.written[each.path])
        own = set(written[each.path].unknown(each.text))
        if missing := [words for words in said.unknown(each.text) if words in own]:
            found.append(f"{each.path}:{each.line}: {each.text!r}: {missing}")
    return found


@pytest.fixture(scope="module")
def texts() -> Texts:
    return texts_of_tests(slow_tests())


@pytest.fixture(scope="module")
def product() -> tuple[str, ...]:
    return tuple(product_texts(map(Path, PRODUCT)))


def test_no_expectation_is_stale(texts: Texts, product: tuple[str, ...]) -> None:
    """Reword the test with the text, or add a text of another system to `FROM_ELSEWHERE`."""
    found = stale(texts, product, FROM_ELSEWHERE)
    assert not found, "\n" + "\n".join(found)


def test_each_text_from_elsewhere_is_needed(texts: Texts, product: tuple[str, ...]) -> None:
    found = "\n".join(stale(texts, product))
    assert [text for text in FROM_ELSEWHERE if text not in found] == []


REWORDED = {
    "The run saves a checkpoint and stops at": "The run saves a checkpoint and ends at",
    "protected while it is starting": "protected while it starts",
    "files that were not created by the quickstart": "files that the quickstart has not created",
}
"""Texts of the product that slow tests expect, and other words for them."""


def test_reworded_texts_of_the_product_are_noticed(texts: Texts, product: tuple[str, ...]) -> None:
    changed = list(product)
    for said, other in REWORDED.items():
        changed = [text.replace(said, other) for text in changed]
    found = "\n".join(stale(texts, changed, FROM_ELSEWHERE))
    assert [said for said in REWORDED if said not in found] == []


HELPER = """
def says(run, words):
    assert words in run.message()
"""


@pytest.mark.parametrize(
    ("code", "test"),
    [
        pytest.param('log("No run is started")', 'assert "run is started" in log', id="in"),
        pytest.param('say(f"{n} run is here")', 'assert "2 run is here" in m', id="a value"),
        pytest.param(
            'log("Failed to read %s again")', 'x.index("to read it again")', id="a log line"
        ),
        pytest.param(
            'a = "No run"\nb = ("One is " "left")', 'assert m == "One is left"', id="adjacent"
        ),
        pytest.param(
            'x("url", "value is not valid")',
            'raises(E, match="url value is not valid")',
            id="match",
        ),
        pytest.param(
            'say("it is no longer there")', 're.search(r"is no longer .*", m)', id="a pattern"
        ),
        pytest.param(
            'say("it is no longer there")', 'W = "it is no longer"\nassert W in m', id="a name"
        ),
        pytest.param(
            'say("it is no longer there")', 'for w in ("it is no",): assert w in m', id="a loop"
        ),
        pytest.param(
            'say("it is no longer there")', HELPER + 'says(r, "it is no longer")', id="a call"
        ),
        pytest.param(
            'say("it is no longer there")',
            HELPER + 'wait(partial(says, r, "it is no longer"))',
            id="a partial call",
        ),
        pytest.param(
            'say("it is no longer there")',
            '@pytest.mark.parametrize(("n", "want"), [pytest.param(1, "it is no longer")])\n'
            "def test(n, want):\n    assert want in m",
            id="a parameter",
        ),
    ],
)
def test_expectations(tmp_path: Path, code: str, test: str) -> None:
    (tmp_path / "product").mkdir()
    (tmp_path / "product" / "code.py").write_text(code)
    (tmp_path / "test.py").write_text(test)
    texts = texts_of_tests([tmp_path / "test.py"])
    assert stale(texts, list(product_texts([tmp_path / "product"]))) == []
    (tmp_path / "product" / "code.py").write_text(
        code.replace(" is ", " was ").replace("read", "see")
    )
    assert len(stale(texts, list(product_texts([tmp_path / "product"])))) == 1


@pytest.mark.parametrize(
    "test",
    [
        pytest.param('run("echo the data is gone")\nassert "the data is gone" in m', id="a script"),
        pytest.param('raise Bad("the data is gone")\nassert "data is gone" in m', id="an error"),
        pytest.param('"""Runs without any data."""\nassert "run-1" in m', id="a docstring"),
        pytest.param('wait_for(ready, "the worker is ready")', id="what a test waits for"),
        pytest.param('assert pool.state("a run of mine") == "Running"', id="a name in a call"),
        pytest.param('assert found["a run of mine"] == 2', id="a key"),
        pytest.param('K = {"a run of mine": "not the text"}\nassert x in K', id="names and texts"),
        pytest.param('from gpu_core.x import hold\nassert hold("a run of mine") == 2', id="a call"),
    ],
)
def test_texts_of_a_test_itself(tmp_path: Path, test: str) -> None:
    (tmp_path / "test.py").write_text(test)
    assert stale(texts_of_tests([tmp_path / "test.py"]), ["The run waits for GPUs"]) == []
