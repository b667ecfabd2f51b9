"""What the documentation shows is right: commands, YAML, Python, and links between pages."""

import ast
import importlib
import json
import re
import shlex
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest
import yaml
from cyclopts import App
from prefect.cli._app import _app as prefect_app

from gpu_core.cli.main import app, main
from gpu_core.cli.quickstart.run_table import COLUMNS as RUN_COLUMNS
from gpu_core.decisions.costs.reports.run_history_markdown import COLUMNS as ATTEMPT_COLUMNS
from gpu_core.decisions.policy.policy import Policy, parse_policy
from gpu_core.decisions.scheduling.queue.queue_table import COLUMNS as QUEUE_COLUMNS
from tests.layout import policy_reference
from tests.support.page import Block, blocks_of
from tests.support.tools import require

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
DOCUMENTS = (
    *PAGES,
    *(ROOT / name for name in ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "AGENTS.md")),
    *sorted((ROOT / "gpu_core").rglob("DESIGN.md")),
    *sorted((ROOT / "tests" / "local_cluster").glob("*.md")),
)
EXECUTED = ROOT / "docs" / "getting-started.md"
"""Its blocks, with two mistakes among them, are run word for word by an end-to-end test."""
LANGUAGES = {"sh", "python", "yaml", "text", "json"}
PARSERS: dict[str, App] = {"prefect-gpu": app, "prefect": prefect_app}
OTHER_PROGRAMS = {
    "docker",
    "kubectl",
    "helm",
    "pip",
    "python3",
    "curl",
    "jq",
    "grep",
    "openssl",
    "cat",
    "export",
    ".",
}
FOLDERS = ("infra/", "deployments/", "gpu_core/", "tests/", "docs/", "notebooks/")

REQUIRED_VALUES = {
    "image": {"repository": "registry.example/prefect-gpu"},
    "prefect": {"apiUrl": "http://prefect.example/api"},
    "ledger": {"existingSecret": "ledger"},
}
"""What an installation of the chart states at least."""

of_each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
of_each_document = pytest.mark.parametrize(
    "document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT))
)


# -- commands ------------------------------------------------------------------------------------


def commands_in(text: str) -> Iterator[list[str]]:
    """Every command of a shell text as words, those behind a pipe or `--` included."""
    without_documents = re.sub(r"<<(\w+)\n.*?\n\1\n", "\n", text, flags=re.DOTALL)
    one_word = re.sub(r"\$\([^)]*\)", "VALUE", without_documents)
    for line in one_word.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        while words:
            end = next((n for n, word in enumerate(words) if word in {"|", "--"}), len(words))
            yield words[:end]
            words = words[end + 1 :]


def commands_of(page: Path) -> list[list[str]]:
    blocks = (block.text for block in blocks_of(page) if block.language == "sh")
    inline = re.findall(r"`((?:prefect-gpu|prefect) [a-z][^`\n]* -[^`\n]*)`", page.read_text())
    return [words for text in (*blocks, *inline) for words in commands_in(text)]


def mistake_in(words: list[str]) -> str | None:
    """What is wrong with this command? None: it can be typed; nothing is executed."""
    program, *arguments = words
    if program in PARSERS:
        try:
            PARSERS[program].parse_args(arguments, print_error=False, exit_on_error=False)
        except Exception as error:
            return f"{shlex.join(words)}: {error}"
    elif program == "make":
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        missing = {word for word in arguments if "=" not in word} - set(targets)
        return f"make has no target {missing}" if missing else None
    elif program not in OTHER_PROGRAMS and "=" not in program:
        return f"unknown program: {program}"
    files = (part for word in arguments for part in word.split("=") if part.startswith(FOLDERS))
    return next((f"no such file: {name}" for name in files if not (ROOT / name).exists()), None)


@of_each_page
def test_every_command_can_be_typed(page: Path) -> None:
    assert [wrong for words in commands_of(page) if (wrong := mistake_in(words))] == []


@pytest.mark.parametrize(
    ("text", "want_mistake"),
    [
        pytest.param("prefect-gpu queue --pol gpu", "--pol", id="an unknown option"),
        pytest.param("cat x | prefect-gpu chek -", "chek", id="an unknown command behind a pipe"),
        pytest.param("prefect worker start --typ gpu", "--typ", id="an option of Prefect's CLI"),
        pytest.param("kubectl exec pod -- prefect-gpu doctor --pod x", "--pod", id="in a pod"),
        pytest.param("make no-such", "no-such", id="a target of make"),
        pytest.param("helm install x infra/none", "infra/none", id="a file"),
    ],
)
def test_a_wrong_command_is_found(text: str, want_mistake: str) -> None:
    mistakes = [wrong for words in commands_in(text) if (wrong := mistake_in(words))]
    assert len(mistakes) == 1
    assert want_mistake in mistakes[0]


# -- files ---------------------------------------------------------------------------------------


def blocks_in(language: str) -> list[object]:
    return [
        pytest.param(block, id=f"{page.name}:{block.line}")
        for page in PAGES
        if page != EXECUTED
        for block in blocks_of(page)
        if block.language == language
    ]


@of_each_page
def test_every_block_says_its_language(page: Path) -> None:
    openings = page.read_text().split("\n```")[1::2]
    assert {opening.split(None, 1)[0] for opening in openings} <= LANGUAGES


@pytest.mark.parametrize("block", blocks_in("yaml"))
def test_yaml_is_accepted_by_what_reads_it(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A policy, the chart's values, a prefect.yaml or a prometheus.yml; anything else fails."""
    data = yaml.safe_load(block.text)
    if data.keys() <= Policy.model_json_schema()["properties"].keys():
        parse_policy({"version": 1, **data})
    elif "deployments" in data:
        readme = (ROOT / "README.md").read_text()
        flow = re.search(r"```python train.py\n(.*?)```", readme, re.DOTALL)
        assert flow is not None
        (tmp_path / "train.py").write_text(flow[1])
        (tmp_path / "prefect.yaml").write_text(block.text)
        monkeypatch.chdir(tmp_path)
        assert main(["check", "prefect.yaml"]) == 0
    elif "scrape_configs" in data:
        (tmp_path / "prometheus.yml").write_text(block.text)
        shutil.copy(ROOT / "infra/monitoring/rules.yaml", tmp_path)
        promtool = require(shutil.which("promtool"), "promtool (prometheus)")
        subprocess.run([promtool, "check", "config", tmp_path / "prometheus.yml"], check=True)
    else:
        chart = ROOT / "infra/helm/prefect-gpu"
        schema = json.loads((chart / "values.schema.json").read_text())
        defaults = yaml.safe_load((chart / "values.yaml").read_text())
        jsonschema.validate(merged(merged(defaults, REQUIRED_VALUES), data), schema)


def merged(defaults: object, values: object) -> object:
    """What Helm makes of default values and those of a file."""
    if not isinstance(defaults, dict) or not isinstance(values, dict):
        return values
    return defaults | {key: merged(defaults.get(key), value) for key, value in values.items()}


@pytest.mark.parametrize("block", blocks_in("python"))
def test_python_compiles_and_its_imports_exist(block: Block) -> None:
    for node in ast.walk(ast.parse(block.text)):
        if isinstance(node, ast.ImportFrom) and node.module:
            module = importlib.import_module(node.module)
            assert [name.name for name in node.names if not hasattr(module, name.name)] == []
        elif isinstance(node, ast.Import):
            for name in node.names:
                importlib.import_module(name.name)


@of_each_document
def test_every_link_leads_to_a_heading_or_a_file(document: Path) -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", without_code(document.read_text()))
    assert [link for link in links if not is_found(document, link)] == []


def is_found(document: Path, link: str) -> bool:
    name, _, anchor = link.partition("#")
    if "://" in name or name.startswith("mailto:"):
        return True
    path = document.parent / name if name else document
    return path.exists() and (not anchor or anchor in anchors(path))


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    found: Counter[str] = Counter()
    names = set()
    for heading in re.findall(r"^#+ (.+)$", without_code(page.read_text()), re.MULTILINE):
        plain = re.sub(r"\]\([^)]*\)", "", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        names.add(f"{slug}-{found[slug]}" if found[slug] else slug)
        found[slug] += 1
    return names


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


# -- references and words ------------------------------------------------------------------------


def test_every_key_of_the_policy_is_described() -> None:
    """A docstring after the field becomes its description in docs/policy-reference.md."""
    assert policy_reference.undescribed() == []


def test_the_glossary_has_every_column_and_each_term_once() -> None:
    """The columns that people see in the queue, on a run's page and in the quickstart."""
    glossary = (ROOT / "docs" / "glossary.md").read_text()
    rows = re.findall(r"^\| ([^|]+) \|", glossary, re.MULTILINE)
    terms = Counter(row for row in rows if row not in {"Term", "Column"})
    assert [term for term, times in terms.items() if times > 1] == []
    columns = {*QUEUE_COLUMNS, *ATTEMPT_COLUMNS, *(heading for heading, _ in RUN_COLUMNS)}
    assert columns - terms.keys() == set()


def test_every_page_is_linked_from_the_readme() -> None:
    linked = set(re.findall(r"\]\(docs/([^)#]+)", (ROOT / "README.md").read_text()))
    assert {page.name for page in PAGES[1:]} - linked == set()
