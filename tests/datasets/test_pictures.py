from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from curvbound.datasets.pictures import is_picture, read_pictures
from curvbound.errors import CurvboundError

RNG = np.random.default_rng(0)
GREY = RNG.integers(256, size=(3, 4), dtype=np.uint8)
COLOUR = RNG.integers(256, size=(3, 4, 3), dtype=np.uint8)


def save(pixels: np.ndarray, file: Path) -> Path:
    Image.fromarray(pixels).save(file)
    return file


def test_grey_pictures_have_one_channel(tmp_path: Path) -> None:
    pixels = read_pictures([save(GREY, tmp_path / "a.png"), save(GREY[::-1], tmp_path / "b.png")])
    assert np.array_equal(pixels, np.stack([GREY, GREY[::-1]])[:, None])


def test_one_colour_picture_makes_all_colour(tmp_path: Path) -> None:
    pixels = read_pictures([save(GREY, tmp_path / "a.png"), save(COLOUR, tmp_path / "b.png")])
    assert np.array_equal(pixels[0], np.stack([GREY] * 3))
    assert np.array_equal(pixels[1], COLOUR.transpose(2, 0, 1))


def test_mixed_sizes(tmp_path: Path) -> None:
    files = [save(GREY, tmp_path / "a.png"), save(GREY.T, tmp_path / "b.png")]
    with pytest.raises(CurvboundError, match=r"b\.png is 3 x 4 pixels but .*a\.png is 4 x 3"):
        read_pictures(files)


@pytest.mark.parametrize("content", [b"", b"no picture"])
def test_not_a_picture(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.png").write_bytes(content)
    with pytest.raises(CurvboundError, match=r"a\.png cannot be read"):
        read_pictures([tmp_path / "a.png"])


def test_truncated_picture(tmp_path: Path) -> None:
    file = save(RNG.integers(256, size=(64, 64, 3), dtype=np.uint8), tmp_path / "a.png")
    file.write_bytes(file.read_bytes()[:5000])
    with pytest.raises(CurvboundError, match=r"a\.png cannot be read"):
        read_pictures([file])


def test_sixteen_bits_are_refused(tmp_path: Path) -> None:
    file = save(GREY.astype(np.uint16) * 200, tmp_path / "a.png")
    with pytest.raises(CurvboundError, match="8 bits per channel"):
        read_pictures([file])


def test_pictures_are_known_by_their_suffix() -> None:
    assert is_picture(Path("a.JPEG"))
    assert not is_picture(Path("a.txt"))
    assert not is_picture(Path("._a.png"))
