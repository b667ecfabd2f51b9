"""The first hour, word for word: every command of the page is run, and prints what the page says.

Only where the page's `pip install` would download is it done otherwise: the wheel is unpacked into
the new environment, which shares all other packages with this one.
"""

import os
import subprocess
import sys
import sysconfig
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import psutil
import pytest

from gpu_core.cli.quickstart.services import free_port
from tests.support.page import Block, blocks_of, is_printed
from tests.support.prefect_stack import clean_environment
from tests.support.waiting import wait_for

PAGE = Path("docs/getting-started.md")
PATIENCE_S = 400.0

pytestmark = pytest.mark.timeout(1800)


@dataclass
class Reader:
    """A person who does what the page says, in an empty folder."""

    folder: Path
    outputs: Path
    environment: dict[str, str]
    port: int
    everywhere: str = ""
    background: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def do(self, block: Block, answer: Block | None) -> None:
        """Do what one block says; `answer`: what the page says is printed then."""
        if block.language in {"python", "yaml"}:
            (self.folder / block.rest).write_text(block.text)
        elif block.rest == "install":
            install(self.folder / ".venv", self.outputs)
        elif block.rest == "everywhere":
            self.everywhere += block.text.replace("4200", str(self.port))
        elif block.rest:
            self._begin(block)
        else:
            self._run(block, answer)

    def expect(self, terminal: str, block: Block) -> None:
        """Wait until this is printed in a terminal."""
        deadline = time.monotonic() + PATIENCE_S
        while not is_printed(block.text, self.printed(terminal)):
            alive = self.background[terminal].poll() is None
            assert alive, f"line {block.line}: {terminal} ended:\n{self.printed(terminal)}"
            late = time.monotonic() > deadline
            assert not late, f"line {block.line}: {block.text}is not in:\n{self.printed(terminal)}"
            time.sleep(0.2)

    def wait_for_server(self) -> None:
        """Wait until it answers."""

        def is_up() -> bool:
            try:
                return httpx.get(f"http://127.0.0.1:{self.port}/api/ready").is_success
            except httpx.TransportError:
                return False

        wait_for(is_up, "the server answers", PATIENCE_S)

    def printed(self, terminal: str) -> str:
        """All that was printed in a terminal so far."""
        return (self.outputs / terminal).read_text(errors="replace")

    def _begin(self, block: Block) -> None:
        with (self.outputs / block.rest).open("wb") as output:
            self.background[block.rest] = subprocess.Popen(
                ["bash", "-ec", self.everywhere + block.text],
                cwd=self.folder,
                env=self.environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _run(self, block: Block, answer: Block | None) -> None:
        done = subprocess.run(
            ["bash", "-ec", self.everywhere + block.text],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        wanted = int(answer.rest or 0) if answer else 0
        assert done.returncode == wanted, f"line {block.line}: {done.stdout}"
        if answer is not None:
            missing = f"line {answer.line}:\n{answer.text}is not in:\n{done.stdout}"
            assert is_printed(answer.text, done.stdout), missing

    def close(self) -> None:
        """Close the terminals, the last one first."""
        for process in reversed(self.background.values()):
            members = [psutil.Process(process.pid), *psutil.Process(process.pid).children(True)]
            for member in members:
                member.terminate()
            _, alive = psutil.wait_procs(members, timeout=30)
            for member in alive:
                member.kill()
            process.wait()


def install(venv: Path, folder: Path) -> None:
    """A new environment with the wheel of this clone and the other packages of this one."""
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    packages = next(venv.glob("lib/python*/site-packages"))
    (packages / "others.pth").write_text(
        "\n".join(dict.fromkeys(p for p in sys.path if p.endswith("site-packages")))
    )
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    scripts = Path(sysconfig.get_path("scripts"))
    for name in ("prefect", "prefect-gpu"):
        first, _, rest = (scripts / name).read_text().partition("\n")
        assert first.startswith("#!")
        script = venv / "bin" / name
        script.write_text(f"#!{venv}/bin/python\n{rest}")
        script.chmod(0o755)


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    port = free_port()
    folder, outputs = tmp_path / "project", tmp_path / "outputs"
    for new in (folder, outputs, tmp_path / "home" / "home"):
        new.mkdir(parents=True)
    environment = clean_environment(tmp_path / "home") | {
        "COLUMNS": "200",
        "NO_COLOR": "1",
        "PREFECT_SERVER_API_PORT": str(port),
    }
    reader = Reader(folder, outputs, environment, port)
    try:
        yield reader
    finally:
        reader.close()
        for output in outputs.iterdir():
            if output.suffix != ".whl":
                print(f"-- {output.name}\n{output.read_text(errors='replace')[-3000:]}")


def test_the_first_hour_is_as_the_page_says(reader: Reader) -> None:
    if (datetime.now(UTC) + timedelta(minutes=20)).date() != datetime.now(UTC).date():
        pytest.skip("the bill of today is read before and after midnight")
    blocks = list(blocks_of(PAGE))
    assert os.path.realpath(reader.folder) != os.path.realpath(Path.cwd())
    for block, after in zip(blocks, [*blocks[1:], None], strict=True):
        if block.language == "text":
            if block.rest in reader.background:
                reader.expect(block.rest, block)
            continue
        follows = after is not None and after.language == "text"
        is_own = follows and after is not None and after.rest not in reader.background
        reader.do(block, after if is_own and block.rest not in {"server", "worker"} else None)
        if block.rest == "server":
            reader.wait_for_server()
        elif block.rest == "worker" and after is not None:
            reader.expect("worker", after)
