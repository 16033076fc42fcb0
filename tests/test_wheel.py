"""The built wheel installs into an empty environment and every module in it imports."""

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

IMPORT_EVERYTHING = """
import importlib, pkgutil, curvbound
names = [m.name for m in pkgutil.walk_packages(curvbound.__path__, "curvbound.")]
for name in names:
    importlib.import_module(name)
print(*names)
for public in curvbound.__all__:
    getattr(curvbound, public)
"""


def run(*command: str | Path, cwd: Path) -> str:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "COV"))}
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.xdist_group("wheel")
def test_wheel_installs_and_imports_in_an_empty_environment(tmp_path: Path) -> None:
    run(sys.executable, "-m", "build", "--wheel", "--outdir", tmp_path, ROOT, cwd=tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    run(
        *(python, "-m", "pip", "install", "--quiet"),
        *("-c", ROOT / "constraints.txt", wheel),
        cwd=tmp_path,
    )
    imported = run(python, "-c", IMPORT_EVERYTHING, cwd=tmp_path).split()
    source = ROOT / "src" / "curvbound"
    expected = {
        "curvbound." + ".".join(path.relative_to(source).with_suffix("").parts)
        for path in source.rglob("*.py")
    }
    assert {name.removesuffix(".__init__") for name in expected} - {"curvbound"} == set(imported)
    assert "Usage" in run(tmp_path / "env" / "bin" / "curvbound", "--help", cwd=tmp_path)
