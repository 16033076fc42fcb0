"""The handwritten digits that are bundled with scikit-learn: 1797 pictures of 8 x 8 pixels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from curvbound.datasets.dataset import Dataset
from curvbound.datasets.pixels import pixel_examples

__all__ = ["load_digits"]

TEST_EXAMPLES = 360
SPLIT_SEED = 0


def load_digits() -> Dataset:
    """Digits with grey levels 0 to 16 brought to [0, 1], in a fixed split into 1437 and 360.

    The split is drawn at random once and for all, without looking at labels.
    """
    from sklearn import datasets

    bunch = datasets.load_digits()
    everything = pixel_examples(
        bunch.images[:, None].astype(np.uint8), bunch.target, 10, "digits", brightest=16
    )
    sizes = (len(everything) - TEST_EXAMPLES, TEST_EXAMPLES)
    train, test = everything.split(*sizes, seed=SPLIT_SEED)
    return Dataset(
        "digits",
        replace(train, name="digits train"),
        replace(test, name="digits test"),
        tuple("0123456789"),
        "bundled with scikit-learn",
        "scikit-learn",
    )
