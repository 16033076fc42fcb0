"""What a closed-form certificate says on MNIST-2, and what it costs.

Run it with: python benchmarks/certificates.py [--threads 1] [--recipe near] [--nets F-600 ...]

Costs are processor time, in units of one plain SGD epoch at batch 128 (``epochs``) or of one plain
forward pass over the data (``passes``), measured in the same run.
"""

import argparse
import copy
import json
import math
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

import curvbound as cb
from curvbound.bounds import DeltaLedger
from curvbound.certificates.claims import content_seed
from curvbound.gaussians import NoisyNetwork, count_errors

RESULTS = Path(__file__).parent / "results" / "certificates.json"


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    start = time.process_time()
    result = call()
    return result, time.process_time() - start


def plain_epoch(model: nn.Module, X: torch.Tensor, y: torch.Tensor) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    order = torch.randperm(len(X))
    for start in range(0, len(X), 128):
        rows = order[start : start + 128]
        optimizer.zero_grad()
        functional.cross_entropy(model(X[rows]), y[rows]).backward()
        optimizer.step()


@torch.no_grad()
def plain_forward(model: nn.Module, X: torch.Tensor) -> None:
    for start in range(0, len(X), 1000):
        model(X[start : start + 1000])


def measure(name: str, recipe: str, seed: int) -> dict[str, Any]:
    data = cb.datasets.load("mnist-2")
    X, y = data.train
    model = cb.networks.build(name, data.shape, 2, init="gaussian-0.04", seed=seed)
    start = copy.deepcopy(model.state_dict())
    trained = cb.train(model, data, recipe, seed=seed, progress=False)
    model.eval()
    epoch = statistics.median(
        timed(lambda: plain_epoch(copy.deepcopy(model), X, y))[1] for _ in range(3)
    )
    certificate, cost = timed(lambda: cb.certify(model, data.train, init=start, seed=seed))
    forward = statistics.median(timed(lambda: plain_forward(model, X))[1] for _ in range(5))
    noisy = NoisyNetwork(model, certificate.posterior, X[:2])
    once = content_seed("benchmark")
    counts, carlo = timed(lambda: count_errors(noisy, data.train, passes=2, seed=once))
    ledger = DeltaLedger(0.05)
    limit = counts.limit(ledger.spend("Monte Carlo", 0.01))
    return {
        "network": name,
        "recipe": recipe,
        "seed": seed,
        "bound": certificate.bound,
        "drawn": certificate.record.claims[1].bound,
        "risk": certificate.empirical_risk,
        "kl": certificate.kl,
        "confidence": certificate.confidence,
        "test_error": trained.test_error,
        "certify_epochs": cost / epoch,
        "carlo_passes": carlo / forward,
        "carlo_slack": limit - counts.risk,
        "verified": cb.verify(certificate, data=data.train).ok,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--recipe", nargs="+", default=["near", "fast"])
    parser.add_argument("--nets", nargs="+", default=["F-600", "F-300^2"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rows = []
    for recipe in options.recipe:
        for name in options.nets:
            for seed in options.seeds:
                row = measure(name, recipe, seed)
                rows.append(row)
                print({k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()})
                assert math.isfinite(row["bound"])
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
