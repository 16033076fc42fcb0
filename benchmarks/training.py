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


def our_epoch(model: nn.Module, inputs: Tensor, targets: Tensor) -> tuple[float, float]:
    """Seconds of the epoch alone, and of the whole call with its checks and final evaluation."""
    begun = time.perf_counter()
    result = train(model, (inputs, targets), "001", epochs=1, progress=False)
    return result.history[0].seconds, time.perf_counter() - begun


def measure(rounds: int) -> dict[str, object]:
    examples = datasets.load("mnist").train
    models = [networks.build("F-600", examples.shape, examples.classes) for _ in range(2)]
    inputs, targets = examples
    bare_epoch(models[0], inputs[:12800], targets[:12800])  # whatever torch puts off until needed
    bare, ours, calls = [], [], []
    for round_number in range(rounds):
        for which in (0, 1) if round_number % 2 else (1, 0):
            if which == 0:
                begun = time.perf_counter()
                bare_epoch(models[0], inputs, targets)
                bare.append(time.perf_counter() - begun)
            else:
                epoch, call = our_epoch(models[1], inputs, targets)
                ours.append(epoch)
                calls.append(call)
        print(
            f"round {round_number + 1}: bare {bare[-1]:.2f} s, train {ours[-1]:.2f} s", flush=True
        )
    ratios = [mine / theirs for mine, theirs in zip(ours, bare, strict=True)]
    call_ratios = [call / theirs for call, theirs in zip(calls, bare, strict=True)]
    return {
        "what": "one SGD epoch of F-600 on MNIST, batch 128, over a bare torch loop",
        "ratio": round(statistics.median(ratios), 4),
        "ratios": [round(ratio, 4) for ratio in ratios],
        "limit": LIMIT,
        "ratio_of_whole_call": round(statistics.median(call_ratios), 4),
        "bare_seconds": round(statistics.median(bare), 3),
        "train_seconds": round(statistics.median(ours), 3),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    result = measure(arguments.rounds)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(result, indent=2) + "\n")
    print(f"ratio {result['ratio']} (at most {LIMIT}); written to {RESULTS.name}")


if __name__ == "__main__":
    main()
