"""The public names are there, and importing the package stays cheap."""

import subprocess
import sys

import pytest

import curvbound

HEAVY = ["scipy", "sklearn", "matplotlib", "PIL", "pooch", "rich", "typer", "pydantic", "jinja2"]


@pytest.mark.parametrize("name", curvbound.__all__)
def test_every_public_name_is_there_and_documented(name: str) -> None:
    assert getattr(curvbound, name).__doc__
    assert name in dir(curvbound)


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'bouund'"):
        _ = curvbound.bouund


def test_import_loads_nothing_heavy_beyond_torch() -> None:
    code = (
        "import torch, sys; before = set(sys.modules); import curvbound;"
        f"print([m for m in {HEAVY} if m in sys.modules and m not in before])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
