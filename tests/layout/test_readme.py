"""What the README and the policy's page show works, and every link leads to something."""

import re
import runpy
import shlex
from pathlib import Path

import pytest
import yaml

from gpu_core.cli.main import app, main
from gpu_core.decisions.policy.policy import parse_policy

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = (README, *sorted((ROOT / "docs").glob("*.md")))
POLICY_KEYS = frozenset({"priorities", "ordering"})


def policy_examples():
    blocks = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "policy.md").read_text(), re.DOTALL)
    return [block for block in blocks if POLICY_KEYS & set(yaml.safe_load(block))]


@pytest.mark.parametrize("block", policy_examples())
def test_a_policy_that_the_docs_show_is_accepted(block):
    """Whoever copies it gets no error."""
    parse_policy({"version": 1, **yaml.safe_load(block)})


def test_there_are_policies_to_check():
    """The search above finds what it is for."""
    assert len(policy_examples()) == 2


def block(info):
    """The code block of the README with this line behind its back-quotes."""
    return re.search(rf"```{info}\n(.*?)```", README.read_text(), re.DOTALL)[1]


def test_the_flow_runs_word_for_word(tmp_path):
    """Outside a pool it runs unchanged and saves nothing."""
    (tmp_path / "train.py").write_text(block("python train.py"))
    names = runpy.run_path(str(tmp_path / "train.py"))
    assert names["train"].fn(steps=3) == pytest.approx(0.999**3)
    assert [path.name for path in tmp_path.iterdir() if path.suffix] == ["train.py"]


def test_the_deployment_is_one_that_set_up_accepts(tmp_path, monkeypatch):
    """With the flow beside it, as a newcomer saves both."""
    (tmp_path / "train.py").write_text(block("python train.py"))
    (tmp_path / "prefect.yaml").write_text(block("yaml prefect.yaml"))
    monkeypatch.chdir(tmp_path)
    assert main(["check", "prefect.yaml"]) == 0


def test_the_readme_is_read_to_its_end():
    """At most 1,200 words."""
    assert len(README.read_text().split()) <= 1200


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_to_a_file(page):
    """Anchors aside."""
    links = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


def command_lines(page):
    """The `prefect-gpu` commands in the page's code blocks, without comments."""
    for shown in re.findall(r"```[^\n]*\n(.*?)```", page.read_text(), re.DOTALL):
        for line in shown.replace("\\\n", " ").splitlines():
            if line.startswith("prefect-gpu ") and not line.startswith("prefect-gpu setup: "):
                yield shlex.split(line, comments=True)[1:]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_that_the_docs_show_can_be_typed(page):
    """Its options exist and take these values; nothing is executed."""
    for words in command_lines(page):
        app.parse_args(words)


def test_there_are_commands_to_check():
    """The search above finds what it is for."""
    assert sum(1 for page in PAGES for _ in command_lines(page)) > 20
