import numpy as np
import pytest

from curvbound.datasets.idx import parse_idx
from curvbound.errors import CurvboundError


def encode(array: np.ndarray) -> np.ndarray:
    header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, dtype=">u4").tobytes()
    return np.frombuffer(header + array.tobytes(), dtype=np.uint8).copy()


def test_round_trip() -> None:
    array = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    assert np.array_equal(parse_idx(encode(array), "file"), array)


def test_every_truncation_is_noticed() -> None:
    content = encode(np.arange(6, dtype=np.uint8).reshape(2, 3))
    for end in range(len(content)):
        with pytest.raises(CurvboundError, match=r"^file is "):
            parse_idx(content[:end], "file")


def test_extra_bytes_and_other_types() -> None:
    content = encode(np.arange(6, dtype=np.uint8))
    with pytest.raises(CurvboundError, match="too long"):
        parse_idx(np.append(content, np.uint8(0)), "file")
    content[2] = 0x0D
    with pytest.raises(CurvboundError, match="not an idx file"):
        parse_idx(content, "file")
