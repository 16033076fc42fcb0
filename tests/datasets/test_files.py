from pathlib import Path

import pytest

from curvbound.datasets.files import load_path, looks_like_path
from curvbound.errors import CurvboundError


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(CurvboundError, match=r"no file or folder .*none\.npz"):
        load_path(tmp_path / "none.npz")


def test_unknown_kind(tmp_path: Path) -> None:
    (tmp_path / "data.xlsx").write_text("")
    with pytest.raises(CurvboundError, match="no known kind of data file"):
        load_path(tmp_path / "data.xlsx")


@pytest.mark.parametrize("name", ["a.csv", "A.NPZ", "./mnist", "folder/x"])
def test_paths(name: str) -> None:
    assert looks_like_path(name)


@pytest.mark.parametrize("name", ["mnist", "cifar-10", "fashion_mnist"])
def test_names(name: str) -> None:
    assert not looks_like_path(name)
