"""Plain training of small networks, for tests that need a network that has learnt something."""

import torch
from torch import nn
from torch.nn import functional


def fit(model: nn.Module, data, steps: int = 80, lr: float = 0.01) -> nn.Module:
    """Train on all examples at once with Adam, in place."""
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    for _ in range(steps):
        optimizer.zero_grad()
        functional.cross_entropy(model(data.inputs), data.targets).backward()
        optimizer.step()
    model.zero_grad()
    return model.eval()
