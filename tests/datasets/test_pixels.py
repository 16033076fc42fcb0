import numpy as np
import torch

from curvbound.datasets.pixels import pixel_examples


def test_bytes_become_numbers_between_0_and_1() -> None:
    pixels = np.array([0, 51, 255, 102], dtype=np.uint8).reshape(2, 1, 1, 2)
    examples = pixel_examples(pixels, np.array([1, 0], dtype=np.uint8), 2, "two")
    assert examples.inputs.dtype == torch.float32
    assert torch.equal(examples.inputs.flatten(), torch.tensor([0, 51, 255, 102]) / 255)
    assert examples.targets.tolist() == [1, 0]
    assert examples.scaling.name == "unit"
    fifths = pixel_examples(pixels // 51, np.array([1, 0]), 2, "fifths", brightest=5)
    assert torch.equal(fifths.inputs.flatten(), torch.tensor([0.0, 1.0, 5.0, 2.0]) / 5)
