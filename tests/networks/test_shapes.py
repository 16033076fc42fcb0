import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from curvbound.errors import CurvboundError
from curvbound.networks.shapes import Window, image_shape, output_sides


@given(
    side=st.integers(1, 40), size=st.integers(1, 7), stride=st.integers(1, 3), pad=st.integers(0, 2)
)
def test_window_agrees_with_torch(side, size, stride, pad):
    with torch.device("meta"):
        convolution = nn.Conv2d(1, 1, size, stride, pad)
        image = torch.empty(1, 1, side, side)
    if size > side + 2 * pad:
        with pytest.raises(RuntimeError):
            convolution(image)
        with pytest.raises(CurvboundError):
            output_sides("net", (side, side), [Window(size, stride, pad)])
    else:
        expected = tuple(convolution(image).shape[2:])
        assert output_sides("net", (side, side), [Window(size, stride, pad)]) == expected


def test_the_smallest_image_is_named_and_is_right():
    windows = [Window(5), Window(2, 2), Window(5), Window(2, 2)]
    with pytest.raises(CurvboundError, match="at least 16x16 pixels, not 40x8"):
        output_sides("net", (40, 8), windows)
    assert output_sides("net", (16, 16), windows) == (1, 1)


def test_images_have_three_dimensions():
    assert image_shape("net", (3, 4, 5)) == (3, 4, 5)
    with pytest.raises(CurvboundError, match=r"\(channels, height, width\), not .* \(784,\)"):
        image_shape("net", (784,))
