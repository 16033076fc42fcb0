"""Small networks that use their layers in ways that noise rules must notice."""

import torch
from torch import Tensor, nn
from torch.nn import functional


class Mixed(nn.Module):
    """Depthwise and 3-D convolutions, one of them run twice, norms run twice, reshapes."""

    def __init__(self) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(2, 4, 2, groups=2, bias=False)
        self.volume = nn.Conv3d(1, 1, 3, padding=1)
        self.norm = nn.LayerNorm((3, 3))
        self.head = nn.Linear(9, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu(self.depthwise(x))[:, None]
        x = x + self.volume(functional.relu(self.volume(x)))
        x = self.norm(self.norm(x[:, 0])).mean(1)
        return self.head(x.flatten(1))


class Reads(nn.Module):
    """Uses the weight of a layer that also runs as a module."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return functional.linear(functional.relu(self.fc(x)), self.fc.weight)


class Signs(nn.Module):
    """Uses the signs of the weight of a layer that also runs as a module."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return functional.linear(functional.relu(self.fc(x)), (self.fc.weight > 0).to(x))


class Folds(nn.Module):
    """Moves the positions into the batch axis before a dense layer."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x.reshape(-1, 2)).reshape(len(x), -1, 2).mean(1)


class Flips(nn.Module):
    """Reverses the batch between two calls of a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(torch.relu(self.fc(x)).flip(0)).flip(0)


class Centres(nn.Module):
    """Subtracts the mean of the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x - x.mean(0))


class Grows(nn.Module):
    """Runs its layer once more on large batches."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.fc(x)) if len(x) > 10 else self.fc(x)
