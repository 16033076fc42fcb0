"""What the documents print is what happens: every python block runs, commands agree with CI."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


def execute(path: Path, cwd: Path) -> None:
    done = subprocess.run([sys.executable, path], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_blocks_run_in_order(page: Path, tmp_path: Path) -> None:
    code = "\n".join(blocks(page, "python"))
    (tmp_path / "page.py").write_text(code)
    if code:
        execute(tmp_path / "page.py", tmp_path)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_example_runs(example: Path, tmp_path: Path) -> None:
    execute(example, tmp_path)


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_ci_runs_the_test_command_of_the_readme() -> None:
    commands = [line for block in blocks(ROOT / "README.md", "bash") for line in block.splitlines()]
    test_command = next(line for line in commands if line.endswith("pytest"))
    assert test_command in (ROOT / ".ci" / "run").read_text().splitlines()
