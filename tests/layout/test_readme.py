"""What the README shows runs word for word."""

import re
import runpy
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"


def block(info):
    """The code block of the README with this line behind its back-quotes."""
    return re.search(rf"```{info}\n(.*?)```", README.read_text(), re.DOTALL)[1]


def test_the_flow_runs_word_for_word(tmp_path):
    """Outside a pool it runs unchanged and saves nothing."""
    (tmp_path / "train.py").write_text(block("python train.py"))
    names = runpy.run_path(str(tmp_path / "train.py"))
    assert names["train"].fn(steps=3) == pytest.approx(0.999**3)
    assert [path.name for path in tmp_path.iterdir() if path.suffix] == ["train.py"]


def test_the_readme_is_read_to_its_end():
    """At most 1,200 words."""
    assert len(README.read_text().split()) <= 1200
