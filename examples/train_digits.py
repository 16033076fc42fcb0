"""Train a small network on the embedded digits and look at what was kept.

Run it with: python examples/train_digits.py
"""

import tempfile
from pathlib import Path

import curvbound as cb


def main() -> None:
    data = cb.datasets.load("digits")
    model = cb.networks.build("F-100", data.shape, data.classes, seed=0)
    with tempfile.TemporaryDirectory() as folder:
        result = cb.train(model, data, "fast-small", seed=0, out=folder)
        print(f"training error {result.train_error:.4f}, test error {result.test_error:.4f}")
        for path in sorted(Path(folder).iterdir()):
            print(f"  {path.name}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
