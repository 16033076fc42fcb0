"""What the trainer costs beside a hand-written loop: one SGD epoch of F-600 on MNIST, batch 128.

Both do the same steps on the same tensors, in turns in one process, so that the load of the machine
falls on both alike. Each round gives one ratio; the median of the ratios is what counts.

    python benchmarks/training.py [--rounds 9] [--threads N]
"""

import argparse
import json
import platform
import statistics
import time
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from curvbound import datasets, networks
from curvbound.training import train

RESULTS = Path(__file__).parent / "results" / "training.json"
LIMIT = 1.15


def bare_epoch(model: nn.Module, inputs: Tensor, targets: Tensor) -> None:
    """What one writes by hand, without any logging."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    order = torch.randperm(len(inputs))
    for start in range(0, len(inputs), 128):
        chosen = order[start : start + 128]
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(inputs[chosen]), targets[chosen])
        loss.backward()
        optimizer.step()


def our_epoch(model: nn.Module, inputs: Tensor, targets: Tensor) -> None:
    """The whole call, with its checks of model and data."""
    train(model, (inputs, targets), "001", epochs=1, progress=False)


def measure(rounds: int) -> dict[str, object]:
    examples = datasets.load("mnist").train
    model = networks.build("F-600", examples.shape, examples.classes)
    inputs, targets = examples
    epochs = {"bare": bare_epoch, "train": our_epoch}
    wall: dict[str, list[float]] = {name: [] for name in epochs}
    processor: dict[str, list[float]] = {name: [] for name in epochs}
    for epoch in epochs.values():  # whatever torch puts off until it is needed
        epoch(model, inputs[:12800], targets[:12800])
    for round_number in range(rounds):
        for name in sorted(epochs, reverse=bool(round_number % 2)):
            wall_begun, processor_begun = time.perf_counter(), time.process_time()
            epochs[name](model, inputs, targets)
            wall[name].append(time.perf_counter() - wall_begun)
            processor[name].append(time.process_time() - processor_begun)
        times = ", ".join(f"{name} {values[-1]:.2f} s" for name, values in wall.items())
        print(f"round {round_number + 1}: {times}", flush=True)
    return {
        "what": "train() for one SGD epoch of F-600 on MNIST, batch 128, over a bare torch loop",
        "limit": LIMIT,
        "ratio": summary(wall),
        "ratio_of_processor_time": summary(processor),
        "bare_seconds": round(statistics.median(wall["bare"]), 3),
        "train_seconds": round(statistics.median(wall["train"]), 3),
        "rounds": rounds,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def summary(times: dict[str, list[float]]) -> dict[str, float]:
    """Median, smallest and largest of the rounds' ratios."""
    ratios = [ours / bare for ours, bare in zip(times["train"], times["bare"], strict=True)]
    found = {"median": statistics.median(ratios), "least": min(ratios), "most": max(ratios)}
    return {name: round(value, 3) for name, value in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    result = measure(arguments.rounds)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
